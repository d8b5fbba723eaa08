package tiermount

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/account/panics"
)

// maxFailureSeries bounds the resources of FailureCounts. Custom resources come and go.
const maxFailureSeries = 1000

// otherResources stands for resources beyond maxFailureSeries.
const otherResources = "other"

var (
	failuresDesc = describe("request_failures_total", "Answers with status 500, by resource. Both labels are empty for paths that are no resource's. Beyond 1,000 resources, others are counted as \"other\".", "group", "resource")
	panicsDesc   = describe("panics_total", "Panics of foreign code that the server has survived, by what it was doing.", "place")
)

// FailureCounts counts answers with 500 by resource.
type FailureCounts struct {
	metrics.BaseStableCollector
	mu struct {
		sync.Mutex
		counts map[schema.GroupResource]int64
	}
}

var _ metrics.StableCollector = (*FailureCounts)(nil)

// Add counts an answer.
func (f *FailureCounts) Add(group, resource string) {
	gr := schema.GroupResource{Group: group, Resource: resource}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.counts == nil {
		f.mu.counts = map[schema.GroupResource]int64{}
	}
	if _, known := f.mu.counts[gr]; !known && len(f.mu.counts) >= maxFailureSeries {
		gr = schema.GroupResource{Resource: otherResources}
	}
	f.mu.counts[gr]++
}

// DescribeWithStability implements metrics.StableCollector.
func (f *FailureCounts) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- failuresDesc }

// CollectWithStability implements metrics.StableCollector.
func (f *FailureCounts) CollectWithStability(ch chan<- metrics.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for gr, n := range f.mu.counts {
		ch <- metrics.NewLazyConstMetric(failuresDesc, metrics.CounterValue, float64(n), gr.Group, gr.Resource)
	}
}

// panicCollector reports the panics of foreign code. Each place has a series from the start,
// since a rate of a series that begins with its first panic is zero.
type panicCollector struct {
	metrics.BaseStableCollector
	panics *panics.Counter
}

var _ metrics.StableCollector = (*panicCollector)(nil)

// DescribeWithStability implements metrics.StableCollector.
func (c *panicCollector) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- panicsDesc }

// CollectWithStability implements metrics.StableCollector.
func (c *panicCollector) CollectWithStability(ch chan<- metrics.Metric) {
	counts, _ := c.panics.Counts()
	for _, place := range panics.Places() {
		ch <- metrics.NewLazyConstMetric(panicsDesc, metrics.CounterValue, float64(counts[place]), string(place))
	}
}
