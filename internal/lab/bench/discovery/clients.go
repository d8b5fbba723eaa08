package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/lab/bench/crd"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// requestLimit bounds a client's requests: Burst requests at the start, and then QPS per second.
type requestLimit struct {
	QPS   float32 `json:"qps,omitempty"` // 0: no limit
	Burst int     `json:"burst,omitempty"`
}

const (
	noLimit = "none"
	// kubectlLimit is the limit of kubectl's discovery client.
	kubectlLimit = "50/300"
)

// parseLimit parses a value of --limits, such as "50/300".
func parseLimit(text string) (l requestLimit, err error) {
	if text == noLimit {
		return requestLimit{}, nil
	}
	qps, burst, found := strings.Cut(text, "/")
	n, err := strconv.ParseUint(qps, 10, 16)
	if err == nil {
		var m uint64
		m, err = strconv.ParseUint(burst, 10, 16)
		l = requestLimit{float32(n), int(m)}
	}
	if !found || err != nil || l.QPS == 0 || l.Burst == 0 {
		return requestLimit{}, fmt.Errorf("--limits=%s: give requests per second and the burst, as %s, or %q", text, kubectlLimit, noLimit)
	}
	return l, nil
}

// client is a configuration of client-go's discovery client.
type client struct {
	legacy bool // sends a request for each group version
	limit  requestLimit
}

// clients returns a client that reads aggregated discovery, and for each limit a client that sends
// a request for each group version.
func clients(limits []requestLimit) []client {
	clients := []client{{}}
	for _, l := range limits {
		clients = append(clients, client{true, l})
	}
	return clients
}

// clientName returns clientResult.Client.
func clientName(legacy bool, l requestLimit) string {
	switch {
	case !legacy:
		return "client-go, aggregated"
	case l.QPS == 0:
		return "client-go, a request per group version"
	}
	return fmt.Sprintf("client-go, a request per group version, %d at once and then %g/s", l.Burst, l.QPS)
}

// discoverAll measures all clients, in rounds.
func (b *bench) discoverAll(ctx context.Context) error {
	for _, c := range clients(b.opts.limits) {
		res := clientResult{Client: clientName(c.legacy, c.limit), Legacy: c.legacy, requestLimit: c.limit, Rounds: b.opts.rounds}
		before, err := b.Meter.Read()
		if err != nil {
			return err
		}
		var samples []time.Duration
		for range b.opts.rounds {
			start := time.Now()
			if res.Requests, err = b.discover(ctx, c); err != nil {
				return fmt.Errorf("%s: %w", res.Client, testbed.Cause(ctx, err))
			}
			samples = append(samples, time.Since(start))
		}
		after, err := b.Meter.Read()
		if err != nil {
			return err
		}
		res.Millis, res.CPUMillis = render.Summarize(samples), render.Millis(after.CPU-before.CPU)/float64(b.opts.rounds)
		b.result.Clients = append(b.result.Clients, res)
	}
	return nil
}

// discover creates a client that discovers all resources. It returns the number of requests that
// the client sent.
func (b *bench) discover(ctx context.Context, c client) (int, error) {
	var requests atomic.Int64
	cfg := rest.CopyConfig(b.Server.Target.Config.REST)
	if cfg.QPS, cfg.Burst = c.limit.QPS, c.limit.Burst; cfg.QPS == 0 {
		cfg.QPS = -1 // 0 would be client-go's default
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			requests.Add(1)
			return next.RoundTrip(req.WithContext(ctx))
		})
	})
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return 0, fmt.Errorf("configure discovery client: %w", err)
	}
	client.UseLegacyDiscovery = c.legacy
	groups, _, err := client.ServerGroupsAndResources()
	if err != nil {
		return 0, err
	}
	if len(groups) < b.opts.Data.Groups {
		return 0, fmt.Errorf("found %d groups of %d", len(groups), b.opts.Data.Groups)
	}
	return int(requests.Load()), nil
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// addDefinitions adds definitions one after another, and measures the time from before each write
// until discovery lists the definition.
func (b *bench) addDefinitions(ctx context.Context) error {
	before, err := b.Meter.Read()
	if err != nil {
		return err
	}
	var samples []time.Duration
	for i := range b.opts.additions {
		added := b.opts.Data.CRDs + i
		body, err := json.Marshal(b.Generator.CRD(added))
		if err != nil {
			return fmt.Errorf("encode definition: %w", err)
		}
		resource := []byte(`"` + b.Generator.Definition(added).Plural + `"`)
		start := time.Now()
		err = b.Server.Target.Write(ctx, b.Conn, testbed.Change{
			Method: http.MethodPost, URI: crd.DefinitionsPath, ContentType: testbed.AcceptJSON, Body: body,
		}, http.StatusCreated)
		if err != nil {
			return err
		}
		err = b.AwaitDiscovery(ctx, 0, func(body []byte) (bool, error) { return bytes.Contains(body, resource), nil })
		if err != nil {
			return err
		}
		samples = append(samples, time.Since(start))
	}
	after, err := b.Meter.Read()
	if err != nil {
		return err
	}
	b.result.Appear = &additionResult{
		Definitions: len(samples), Millis: render.Summarize(samples),
		CPUMillis: render.Millis(after.CPU-before.CPU) / float64(len(samples)),
	}
	return nil
}
