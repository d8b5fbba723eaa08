package slo

import "time"

// totals back the counters of the metrics.
type totals struct {
	// withinBound counts spans by the first of spanBounds that is at least as long. The
	// last element counts the longer ones.
	withinBound [len(spanBounds) + 1]uint64
	// late counts the late spans.
	late uint64
	// spans and stages are sums of durations.
	spans  time.Duration
	stages [spanStages]time.Duration
	// dispatch has the stages of Kubernetes' histogram.
	dispatch [dispatchStages]dispatchCounts
}

// spanBounds are the buckets of millrace_watch_span_seconds.
var spanBounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, time.Minute,
}

func (t *totals) observe(run *spanRun) {
	i, n := 0, run.count
	for i < len(spanBounds) && run.span > spanBounds[i] {
		i++
	}
	t.withinBound[i] += uint64(n)
	t.spans += run.span * time.Duration(n)
	for i, d := range run.stages {
		t.stages[i] += d * time.Duration(n)
	}
	for i, d := range run.dispatch {
		t.dispatch[i].observe(d, n)
	}
}
