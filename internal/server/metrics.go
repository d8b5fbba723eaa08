package server

import (
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/encode"
)

// collector reports what the caches hold at the moment of the scrape.
type collector struct {
	metrics.BaseStableCollector
	backends *backends
	budget   *encode.Budget
}

var _ metrics.StableCollector = (*collector)(nil)

func describe(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc("millrace_"+name, help, labels, nil, metrics.ALPHA, "")
}

var (
	revisionDesc    = describe("feed_revision", "Revision up to which the cache holds everything, by etcd cluster.", "etcd")
	healthyDesc     = describe("feed_healthy", "1 while the feed from an etcd cluster is open.", "etcd")
	objectsDesc     = describe("cache_objects", "Stored objects in the cache, by resource.", "group", "resource")
	storedDesc      = describe("cache_stored_bytes", "Bytes of these objects as etcd stores them.", "group", "resource")
	wireBytesDesc   = describe("wire_cache_bytes", "Encoded bytes that are kept for the next reader.")
	wireCacheLimits = describe("wire_cache_limit_bytes", "Most encoded bytes that may be kept.")
)

// DescribeWithStability implements metrics.StableCollector.
func (c *collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{revisionDesc, healthyDesc, objectsDesc, storedDesc, wireBytesDesc, wireCacheLimits} {
		ch <- d
	}
}

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	gauge := func(d *metrics.Desc, value float64, labels ...string) {
		ch <- metrics.NewLazyConstMetric(d, metrics.GaugeValue, value, labels...)
	}
	gauge(wireBytesDesc, float64(c.budget.Used()))
	gauge(wireCacheLimits, float64(c.budget.Limit()))
	for _, b := range c.backends.all() {
		gauge(revisionDesc, float64(b.Cache.Progress().Revision()), b.servers)
		healthy := 0.0
		if b.feed.Healthy() == nil {
			healthy = 1
		}
		gauge(healthyDesc, healthy, b.servers)
		for _, r := range b.Cache.Resources() {
			snapshot, gr := r.Snapshot(), r.GroupResource()
			gauge(objectsDesc, float64(snapshot.Len()), gr.Group, gr.Resource)
			gauge(storedDesc, float64(snapshot.Bytes), gr.Group, gr.Resource)
		}
	}
}
