package slo

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
)

// The stages of apiserver_watch_events_dispatch_duration_seconds, in the order of
// dispatchNames. Kubernetes takes the times where its watch cache hands an event to a
// watch, before the event is encoded. Here a worker then begins to fill its buffer. So
// "total" is from the event's arrival to that moment, and "cache_to_watcher" is the part
// of it after the event was visible in the cache.
//
// Kubernetes' own histogram counts one event of one watch at a time, at the cost of a
// look-up of three buckets. These counts take a run of events at once.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.cacheWatcher.observeDispatchMetrics; compare at each upgrade.
// Upstream: k8s.io/apiserver/pkg/storage/cacher/metrics.DispatchStageDuration; compare at each upgrade.
const dispatchStages = 3

var dispatchNames = [dispatchStages]string{"total", "storage_to_cache", "cache_to_watcher"}

// dispatchBounds are the buckets of Kubernetes' histogram.
var dispatchBounds = [...]time.Duration{
	100 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
}

var dispatchDesc = metrics.NewDesc("apiserver_watch_events_dispatch_duration_seconds",
	"Histogram of watch event dispatch latency broken by resource type and pipeline stage. The 'total' stage is the end-to-end latency of a delivered event.",
	[]string{"group", "resource", "stage"}, nil, metrics.ALPHA, "")

// dispatchCounts counts deliveries by the time of one stage.
type dispatchCounts struct {
	// withinBound counts by the first of dispatchBounds that is at least as long. The last
	// element counts the longer ones.
	withinBound [len(dispatchBounds) + 1]uint64
	sum         time.Duration
}

func (c *dispatchCounts) observe(d time.Duration, n uint32) {
	i := 0
	for i < len(dispatchBounds) && d > dispatchBounds[i] {
		i++
	}
	c.withinBound[i] += uint64(n)
	c.sum += d * time.Duration(n)
}

// histogram returns the counts of a stage as a metric.
func (c *dispatchCounts) histogram(labels ...string) prometheus.Metric {
	return constHistogram(dispatchDesc, dispatchBounds[:], c.withinBound[:], c.sum, labels...)
}
