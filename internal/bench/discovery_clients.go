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

// clientResult is how client-go's discovery client did.
type clientResult struct {
	Client    string    `json:"client"`
	Rounds    int       `json:"rounds"`
	Requests  int       `json:"requests"` // a round
	Millis    latencies `json:"millis"`   // a round, from the first request until all is decoded
	CPUMillis float64   `json:"cpuMillis"`
}

// appearResult is the time from before a definition is sent until aggregated
// discovery lists its resource.
type appearResult struct {
	Definitions int       `json:"definitions"`
	Millis      latencies `json:"millis"`
	CPUMillis   float64   `json:"cpuMillis"` // a definition, with what asking for it costs
}

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
	w := &writer{target: b.server.target}
	var samples []time.Duration
	for i := range b.opts.appear {
		added := b.opts.data.CRDs + i
		body, err := json.Marshal(b.generator.CRD(added))
		if err != nil {
			return fmt.Errorf("encode definition: %w", err)
		}
		resource := []byte(`"` + b.generator.Definition(added).Plural + `"`)
		start := time.Now()
		err = w.send(ctx, b.conn, change{method: http.MethodPost, uri: crdsPath, contentType: acceptJSON, body: body}, http.StatusCreated)
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

// discoveryCells are the first request and the later ones.
func discoveryCells(server string, wide bool) []cells {
	all := []cells{
		numberCell(server, "first ms", func(r *result) float64 { return r.ColdMillis }),
		serverCostCell(server, "first CPU ms", func(r *result) string {
			if r.ColdCPUMillis < millis(tick) {
				return "<" + countOf(millis(tick)) // the kernel counts no less
			}
			return formatNumber(r.ColdCPUMillis)
		}),
		numberCell(server, "p50 ms", func(r *result) float64 { return r.Millis.P50 }),
		numberCell(server, "p99 ms", func(r *result) float64 { return r.Millis.P99 }),
		cpuCell(server),
	}
	if wide {
		all = append(all, numberCell(server, "client CPU ms", func(r *result) float64 { return r.ClientCPUMillis }),
			numberCell(server, "requests", func(r *result) float64 { return float64(r.Requests) }))
	}
	return all
}

// clientTable also has the definitions that were added.
func (r *report) clientTable() titled {
	t := titled{"Discovery of everything by a new client, and how long until a new definition is in aggregated discovery", table{
		columns: columnsOf("what", "server", "rounds", "requests", "p50 ms", "max ms", "CPU ms")}}
	for i := range discoveryClients() {
		for _, s := range r.Servers {
			if i < len(s.Clients) {
				c := s.Clients[i]
				t.table.add(c.Client, s.Name, fmt.Sprint(c.Rounds), fmt.Sprint(c.Requests), formatNumber(c.Millis.P50),
					formatNumber(c.Millis.Max), formatNumber(c.CPUMillis))
			}
		}
	}
	for _, s := range r.Servers {
		if a := s.Appear; a != nil {
			t.table.add("a new definition", s.Name, fmt.Sprint(a.Definitions), "-", formatNumber(a.Millis.P50),
				formatNumber(a.Millis.Max), formatNumber(a.CPUMillis))
		}
	}
	return t
}
