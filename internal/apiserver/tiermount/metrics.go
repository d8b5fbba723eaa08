package tiermount

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/tier/source"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// collector reports the state of the caches at the moment of a scrape.
type collector struct {
	metrics.BaseStableCollector
	backends *source.Backends
	budget   *encode.Budget
	// proofs is nil if nothing is transcoded.
	proofs *transcode.Proofs
}

var _ metrics.StableCollector = (*collector)(nil)

func describe(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc("millrace_"+name, help, labels, nil, metrics.ALPHA, "")
}

var (
	revisionDesc    = describe("feed_revision", "Revision up to which the cache holds everything, by etcd cluster.", "etcd")
	healthyDesc     = describe("feed_healthy", "1 while the feed from an etcd cluster is open.", "etcd")
	heardDesc       = describe("feed_heard_seconds", "Time since the watch of a resource of an API server has last told something: an event or a bookmark.", "etcd")
	depthDesc       = describe("replica_depth", "How many replicas events come through, this one included, as the last watches began: after restarts of others it may be too low until the next ones. No server has it.")
	checkpointDesc  = describe("checkpoint_revision", "Revision of the last checkpoint of a replica that was written, by etcd cluster or resource.", "etcd")
	objectsDesc     = describe("cache_objects", "Stored objects in the cache, by resource.", "group", "resource")
	unreadableDesc  = describe("cache_unreadable_objects", "Stored objects that cannot be decrypted or decoded, by resource. Only resources with such objects have a series.", "group", "resource")
	storedDesc      = describe("cache_stored_bytes", "Bytes of these objects as etcd stores them.", "group", "resource")
	wireBytesDesc   = describe("wire_cache_bytes", "Encoded bytes that are kept for the next reader.")
	wireCacheLimits = describe("wire_cache_limit_bytes", "Most encoded bytes that may be kept.")
	transcodeDesc   = describe("transcode_objects_total", "Objects that a form with a transcoder was asked for and that were not in memory, by outcome: sent without Kubernetes' encoder; or encoded by it, and compared and equal, compared and different, of fields that were different before, or not within the tables. An object of the last two that is then normalized, and sent without the encoder from then on, is counted once as that too.", "outcome")
	provenDesc      = describe("transcode_proven", "Combinations of fields that are proven to be the same.")
)

// DescribeWithStability implements metrics.StableCollector.
func (c *collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{revisionDesc, healthyDesc, heardDesc, depthDesc, checkpointDesc, objectsDesc, unreadableDesc, storedDesc, wireBytesDesc, wireCacheLimits, transcodeDesc, provenDesc} {
		ch <- d
	}
}

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	gauge := func(d *metrics.Desc, value float64, labels ...string) {
		ch <- metrics.NewLazyConstMetric(d, metrics.GaugeValue, value, labels...)
	}
	gauge(wireBytesDesc, float64(c.budget.UsedBytes()))
	gauge(wireCacheLimits, float64(c.budget.LimitBytes()))
	if depth := c.backends.Depth(); depth > 0 {
		gauge(depthDesc, float64(depth))
	}
	c.collectTranscoding(ch)
	// A resource has two caches if it is kept in the two formats in which it was sent.
	type sum struct{ objects, unreadable, bytes int64 }
	sums := map[schema.GroupResource]sum{}
	for _, b := range c.backends.All() {
		gauge(revisionDesc, float64(b.Cache.Progress().Revision()), b.Servers)
		gauge(healthyDesc, boolGauge(b.Feed.Healthy() == nil), b.Servers)
		if at := b.HeardAt(); !at.IsZero() {
			gauge(heardDesc, time.Since(at).Seconds(), b.Servers)
		}
		if c.backends.Checkpoints != nil {
			gauge(checkpointDesc, float64(c.backends.Checkpoints.Revision(b.Kept().Name)), b.Servers)
		}
		for _, r := range b.Cache.Resources() {
			snapshot, of := r.Snapshot(), sums[r.GroupResource()]
			sums[r.GroupResource()] = sum{of.objects + int64(snapshot.Len()), of.unreadable + int64(snapshot.Unreadable), of.bytes + snapshot.Bytes}
		}
	}
	for gr, of := range sums {
		gauge(objectsDesc, float64(of.objects), gr.Group, gr.Resource)
		if of.unreadable > 0 {
			gauge(unreadableDesc, float64(of.unreadable), gr.Group, gr.Resource)
		}
		gauge(storedDesc, float64(of.bytes), gr.Group, gr.Resource)
	}
}

// collectTranscoding reports what became of the objects that transcoders were asked for.
func (c *collector) collectTranscoding(ch chan<- metrics.Metric) {
	if c.proofs == nil {
		return
	}
	counts := c.proofs.Counts()
	for outcome, count := range map[string]int64{
		"transcoded": counts.Transcoded, "compared": counts.Compared, "different": counts.Different, "normalized": counts.Normalized,
		"refuted": counts.Refuted, "declined": counts.Declined,
	} {
		ch <- metrics.NewLazyConstMetric(transcodeDesc, metrics.CounterValue, float64(count), outcome)
	}
	ch <- metrics.NewLazyConstMetric(provenDesc, metrics.GaugeValue, float64(counts.Proven))
}

// boolGauge returns 1 for true and 0 for false.
func boolGauge(value bool) float64 {
	if value {
		return 1
	}
	return 0
}

var _ etcdmetrics.Monitor = source.Monitor{}
