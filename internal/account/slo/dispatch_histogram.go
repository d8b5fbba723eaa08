package slo

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
)

// The indices of k8sDispatchNames.
const (
	k8sTotalIndex = iota
	k8sStorageToCacheIndex
	k8sCacheToWatcherIndex
	k8sDispatchStageCount
)

// k8sDispatchNames are the stages of apiserver_watch_events_dispatch_duration_seconds. "total" is
// the sum of the others. Kubernetes takes the times where its watch cache hands an event to a
// watch, before the event is encoded. Here the time is taken when the connection's writer begins to
// fill the buffer that carries the event. "cache_to_watcher" begins when the event is visible in
// the cache.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.cacheWatcher.observeDispatchMetrics; compare at each upgrade.
// Upstream: k8s.io/apiserver/pkg/storage/cacher/metrics.DispatchStageDuration; compare at each upgrade.
var k8sDispatchNames = [k8sDispatchStageCount]string{
	k8sTotalIndex: "total", k8sStorageToCacheIndex: "storage_to_cache", k8sCacheToWatcherIndex: "cache_to_watcher",
}

// k8sDispatchBounds are the buckets of Kubernetes' histogram.
var k8sDispatchBounds = [...]time.Duration{
	100 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
}

var k8sDispatchDesc = metrics.NewDesc("apiserver_watch_events_dispatch_duration_seconds",
	"Histogram of watch event dispatch latency broken by resource type and pipeline stage. The 'total' stage is the end-to-end latency of a delivered event.",
	[]string{"group", "resource", "stage"}, nil, metrics.ALPHA, "")

// k8sDispatchCounts counts deliveries by the time of one stage. Kubernetes' own histogram counts
// one event of one watch at a time, and looks up three buckets for it. These counts take a run
// of events in one call.
type k8sDispatchCounts struct {
	// firstBound counts each delivery once: at the first of k8sDispatchBounds that is at least as
	// long. The last element counts the longer deliveries.
	firstBound [len(k8sDispatchBounds) + 1]uint64
	sum        time.Duration
}

func (c *k8sDispatchCounts) observe(d time.Duration, n uint32) {
	i := 0
	for i < len(k8sDispatchBounds) && d > k8sDispatchBounds[i] {
		i++
	}
	c.firstBound[i] += uint64(n)
	c.sum += d * time.Duration(n)
}

// histogram returns the counts of a stage as a metric.
func (c *k8sDispatchCounts) histogram(labels ...string) prometheus.Metric {
	return constHistogram(k8sDispatchDesc, k8sDispatchBounds[:], c.firstBound[:], c.sum, labels...)
}
