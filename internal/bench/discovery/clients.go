package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/bench/crd"
	"github.com/millrace/millrace/internal/bench/render"
	"github.com/millrace/millrace/internal/bench/testbed"
)

// The limits of kubectl's discovery client.
const (
	kubectlQPS   = 50
	kubectlBurst = 300
)

// client is one of the ways to discover everything.
type client struct {
	name   string
	legacy bool // a request for each group version
	qps    float32
}

func clients() []client {
	return []client{
		{"client-go, aggregated", false, -1},
		{"client-go, a request a group version", true, -1},
		{fmt.Sprintf("the same, %d/s and %d at once", kubectlQPS, kubectlBurst), true, kubectlQPS},
	}
}

func (b *bench) discoverAll(ctx context.Context) error {
	for _, c := range clients() {
		res := clientResult{Client: c.name, Rounds: b.opts.rounds}
		before, err := b.Meter.Read()
		if err != nil {
			return err
		}
		var samples []time.Duration
		for range b.opts.rounds {
			start := time.Now()
			if res.Requests, err = b.discover(ctx, c); err != nil {
				return fmt.Errorf("%s: %w", c.name, testbed.Cause(ctx, err))
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

// discover has a new client discover everything and returns how many requests
// that took.
func (b *bench) discover(ctx context.Context, c client) (int, error) {
	var requests atomic.Int64
	cfg := rest.CopyConfig(b.Server.Target.Config.REST)
	cfg.QPS, cfg.Burst = c.qps, kubectlBurst
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

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// addDefinitions adds definitions beside those that are there.
func (b *bench) addDefinitions(ctx context.Context) error {
	before, err := b.Meter.Read()
	if err != nil {
		return err
	}
	var samples []time.Duration
	for i := range b.opts.appear {
		added := b.opts.Data.CRDs + i
		body, err := json.Marshal(b.Generator.CRD(added))
		if err != nil {
			return fmt.Errorf("encode definition: %w", err)
		}
		resource := []byte(`"` + b.Generator.Definition(added).Plural + `"`)
		start := time.Now()
		err = b.Server.Target.Write(ctx, b.Conn, testbed.Change{Method: http.MethodPost, URI: crd.DefinitionsPath, ContentType: testbed.AcceptJSON, Body: body}, http.StatusCreated)
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
	b.result.Appear = &appearResult{Definitions: len(samples), Millis: render.Summarize(samples),
		CPUMillis: render.Millis(after.CPU-before.CPU) / float64(len(samples))}
	return nil
}
