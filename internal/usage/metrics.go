package usage

import (
	"sync"
	"sync/atomic"

	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/report"
)

// series is what requests of one resource that were answered in one way cost since
// the start.
type series struct {
	requests, bytes atomic.Uint64
	// cpu is in nanoseconds.
	cpu atomic.Int64
}

func (s *series) add(c *report.ListCost) {
	s.requests.Add(c.Requests)
	s.bytes.Add(c.Bytes)
	s.cpu.Add(int64(c.CPU * 1e9))
}

type seriesKey struct{ resource, path string }

// seriesSet has a series for each resource that the server stores, as long as there
// are not too many; the others share those of "other".
type seriesSet struct {
	mu struct {
		sync.Mutex
		all map[seriesKey]*series
	}
}

const (
	maxSeries     = 4_096
	otherResource = "other"
)

func (set *seriesSet) of(s *report.Shape, known bool) *series {
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.mu.all == nil {
		set.mu.all = map[seriesKey]*series{}
	}
	key := seriesKey{s.Resource, s.Path}
	if !known || len(set.mu.all) >= maxSeries && set.mu.all[key] == nil {
		key.resource = otherResource
	}
	found := set.mu.all[key]
	if found == nil {
		found = &series{}
		set.mu.all[key] = found
	}
	return found
}

// Collector reports the accounts at the moment of the scrape.
func (l *Accounts) Collector() metrics.StableCollector { return &listsCollector{lists: l} }

type listsCollector struct {
	metrics.BaseStableCollector
	lists *Accounts
}

func describeList(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc("millrace_"+name, help, labels, nil, metrics.ALPHA, "")
}

var (
	listCPUDesc      = describeList("list_cost_cpu_seconds_total", "CPU time of GETs and LISTs, estimated, by resource and path: how objects were found, or that the request was passed on.", "resource", "path")
	listBytesDesc    = describeList("list_cost_bytes_total", "Bytes of the bodies that answered GETs and LISTs, by resource and path.", "resource", "path")
	listRequestsDesc = describeList("list_cost_requests_total", "GETs and LISTs, by resource and path.", "resource", "path")
	listPacedDesc    = describeList("list_paced_total", "Relists that were answered with 429 during a storm (--pace-relists).")
	listStormsDesc   = describeList("list_storms", "Storms going on: many clients of one kind that list the same anew.")
)

// DescribeWithStability implements metrics.StableCollector.
func (c *listsCollector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{listCPUDesc, listBytesDesc, listRequestsDesc, listPacedDesc, listStormsDesc} {
		ch <- d
	}
}

// CollectWithStability implements metrics.StableCollector.
func (c *listsCollector) CollectWithStability(ch chan<- metrics.Metric) {
	count := func(d *metrics.Desc, value float64, labels ...string) {
		ch <- metrics.NewLazyConstMetric(d, metrics.CounterValue, value, labels...)
	}
	set := &c.lists.series
	set.mu.Lock()
	for key, s := range set.mu.all {
		count(listCPUDesc, float64(s.cpu.Load())/1e9, key.resource, key.path)
		count(listBytesDesc, float64(s.bytes.Load()), key.resource, key.path)
		count(listRequestsDesc, float64(s.requests.Load()), key.resource, key.path)
	}
	set.mu.Unlock()
	going, paced := c.lists.storms.counts(c.lists.cfg.Clock.Now())
	count(listPacedDesc, float64(paced))
	ch <- metrics.NewLazyConstMetric(listStormsDesc, metrics.GaugeValue, float64(going))
}
