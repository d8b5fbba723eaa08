package usage

import (
	"sync"
	"sync/atomic"

	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// series adds up, since the start, the requests of one resource that were answered in
// one way. It backs the counters of the metrics.
type series struct {
	requests, bytes atomic.Uint64
	// cpu is in nanoseconds.
	cpu atomic.Int64
}

func (s *series) add(c *serverreport.ListCost) {
	s.requests.Add(c.Requests)
	s.bytes.Add(c.Bytes)
	s.cpu.Add(int64(c.CPU * 1e9))
}

// seriesKey names a series. path is as in serverreport.Shape.Path.
type seriesKey struct{ resource, path string }

// seriesSet has the series of resources that the server stores, up to maxSeries. All
// other resources share otherResource's series, one for each path. The zero value is empty.
type seriesSet struct {
	mu struct {
		sync.Mutex
		series map[seriesKey]*series
		// gone has the requests and bytes of series that were dropped, without PathPassedOn.
		// Accounts.AnsweredTotals includes them.
		gone struct{ requests, bytes uint64 }
	}
}

const (
	maxSeries     = 4_096
	otherResource = "other"
)

// forShape returns the series of a shape's requests. known reports whether the server
// stores the resource.
func (set *seriesSet) forShape(s *serverreport.Shape, known bool) *series {
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.mu.series == nil {
		set.mu.series = map[seriesKey]*series{}
	}
	key := seriesKey{s.Resource, s.Path}
	if !known || len(set.mu.series) >= maxSeries && set.mu.series[key] == nil {
		key.resource = otherResource
	}
	found := set.mu.series[key]
	if found == nil {
		found = &series{}
		set.mu.series[key] = found
	}
	return found
}

// forget drops the series of resources that are gone.
func (set *seriesSet) forget(gone func(resource string) bool) {
	set.mu.Lock()
	defer set.mu.Unlock()
	for key, s := range set.mu.series {
		if !gone(key.resource) {
			continue
		}
		if key.path != serverreport.PathPassedOn {
			set.mu.gone.requests += s.requests.Load()
			set.mu.gone.bytes += s.bytes.Load()
		}
		delete(set.mu.series, key)
	}
}

// Collector returns a collector that reads the accounts at each scrape.
func (a *Accounts) Collector() metrics.StableCollector { return &collector{accounts: a} }

type collector struct {
	metrics.BaseStableCollector
	accounts *Accounts
}

func describe(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc("millrace_"+name, help, labels, nil, metrics.ALPHA, "")
}

var (
	listCPUDesc      = describe("list_cost_cpu_seconds_total", "CPU time of GETs and LISTs, estimated, by resource and path: how the cache found objects (key, range, index, scan), or that the request failed before, was passed on, or shared the answer to another one that was passed on.", "resource", "path")
	listBytesDesc    = describe("list_cost_bytes_total", "Bytes of the bodies that answered GETs and LISTs, by resource and path.", "resource", "path")
	listRequestsDesc = describe("list_cost_requests_total", "GETs and LISTs, by resource and path.", "resource", "path")
	listPacedDesc    = describe("list_paced_total", "Relists that were answered with 429 during a storm (--pace-relists).")
	listStormsDesc   = describe("list_storms", "Storms going on: many clients of one kind that list the same again.")
)

// DescribeWithStability implements metrics.StableCollector.
func (c *collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{listCPUDesc, listBytesDesc, listRequestsDesc, listPacedDesc, listStormsDesc} {
		ch <- d
	}
}

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	count := func(d *metrics.Desc, value float64, labels ...string) {
		ch <- metrics.NewLazyConstMetric(d, metrics.CounterValue, value, labels...)
	}
	set := &c.accounts.series
	set.mu.Lock()
	for key, s := range set.mu.series {
		count(listCPUDesc, float64(s.cpu.Load())/1e9, key.resource, key.path)
		count(listBytesDesc, float64(s.bytes.Load()), key.resource, key.path)
		count(listRequestsDesc, float64(s.requests.Load()), key.resource, key.path)
	}
	set.mu.Unlock()
	going, paced := c.accounts.storms.counts(c.accounts.cfg.Clock.Now())
	count(listPacedDesc, float64(paced))
	ch <- metrics.NewLazyConstMetric(listStormsDesc, metrics.GaugeValue, float64(going))
}
