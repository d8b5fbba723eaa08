package bench

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
)

// The limits of kubectl's discovery client.
const (
	kubectlQPS   = 50
	kubectlBurst = 300
)

// discoveryClient is one of the ways to discover everything.
type discoveryClient struct {
	name   string
	legacy bool // a request for each group version
	qps    float32
}

func discoveryClients() []discoveryClient {
	return []discoveryClient{
		{"client-go, aggregated", false, -1},
		{"client-go, a request a group version", true, -1},
		{fmt.Sprintf("the same, %d/s and %d at once", kubectlQPS, kubectlBurst), true, kubectlQPS},
	}
}

func (b *discoveryBench) clients(ctx context.Context) error {
	for _, c := range discoveryClients() {
		res := clientResult{Client: c.name, Rounds: b.opts.rounds}
		before, err := b.meter.read()
		if err != nil {
			return err
		}
		var samples []time.Duration
		for range b.opts.rounds {
			start := time.Now()
			if res.Requests, err = b.discover(ctx, c); err != nil {
				return fmt.Errorf("%s: %w", c.name, cause(ctx, err))
			}
			samples = append(samples, time.Since(start))
		}
		after, err := b.meter.read()
		if err != nil {
			return err
		}
		res.Millis, res.CPUMillis = summarize(samples), millis(after.cpu-before.cpu)/float64(b.opts.rounds)
		b.to.Clients = append(b.to.Clients, res)
	}
	return nil
}

// discover has a new client discover everything and returns how many requests
// that took.
func (b *discoveryBench) discover(ctx context.Context, c discoveryClient) (int, error) {
	var requests atomic.Int64
	cfg := rest.CopyConfig(b.server.target.cfg.rest)
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
	if len(groups) < b.opts.data.Groups {
		return 0, fmt.Errorf("found %d groups of %d", len(groups), b.opts.data.Groups)
	}
	return int(requests.Load()), nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// appear adds definitions beside those that are there.
func (b *discoveryBench) appear(ctx context.Context) error {
	before, err := b.meter.read()
	if err != nil {
		return err
	}
	var samples []time.Duration
	for i := range b.opts.appear {
		added := b.opts.data.CRDs + i
		body, err := json.Marshal(b.generator.CRD(added))
		if err != nil {
			return fmt.Errorf("encode definition: %w", err)
		}
		resource := []byte(`"` + b.generator.Definition(added).Plural + `"`)
		start := time.Now()
		err = b.server.target.write(ctx, b.conn, change{method: http.MethodPost, uri: crdsPath, contentType: acceptJSON, body: body}, http.StatusCreated)
		if err != nil {
			return err
		}
		err = b.awaitDiscovery(ctx, 0, func(body []byte) (bool, error) { return bytes.Contains(body, resource), nil })
		if err != nil {
			return err
		}
		samples = append(samples, time.Since(start))
	}
	after, err := b.meter.read()
	if err != nil {
		return err
	}
	b.to.Appear = &appearResult{Definitions: len(samples), Millis: summarize(samples),
		CPUMillis: millis(after.cpu-before.cpu) / float64(len(samples))}
	return nil
}
