package slo

import "time"

// totals are sums since the account was made, for the counters of the metrics. resourceAccount.mu
// guards them.
type totals struct {
	// firstBound counts each span once: at the first of spanBounds that is at least as long.
	// The last element counts the longer spans.
	firstBound [len(spanBounds) + 1]uint64
	// late counts the late spans.
	late      uint64
	spanSum   time.Duration
	stageSums [spanStageCount]time.Duration
	// k8sDispatch has the stages of Kubernetes' histogram.
	k8sDispatch [k8sDispatchStageCount]k8sDispatchCounts
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
	t.firstBound[i] += uint64(n)
	if run.lateStage != noStage {
		t.late += uint64(n)
	}
	t.spanSum += run.span * time.Duration(n)
	for i, d := range run.stages {
		t.stageSums[i] += d * time.Duration(n)
	}
	for i, d := range run.k8sDispatch {
		t.k8sDispatch[i].observe(d, n)
	}
}
