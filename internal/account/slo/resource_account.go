package slo

import (
	"sync"
	"time"
)

// resourceAccount is the account of the watches of one resource. Most of the reports
// and all metrics are from these accounts.
//
// Lock order: Watches.mu, then this, then peers.
type resourceAccount struct {
	set       *Watches
	name      string
	objective time.Duration

	mu struct {
		sync.Mutex
		// history is that of the newest watch.
		history History
		// pending has deliveries that are not counted yet, pendingCount of them. It is nil
		// while there are none.
		pending      *[deliveryBatch]delivery
		pendingCount int
		window       window[resourceSlot]
		burn         burnCounter
		// events, bytes and totals are since the start. expired counts the watches that
		// were told to list again.
		events, bytes uint64
		expired       uint64
		totals        totals
	}
}

func (r *resourceAccount) setHistory(h History) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.history = h
}

// observeLocked counts a run of spans. An empty run counts nothing.
func (r *resourceAccount) observeLocked(run *spanRun) {
	if run.count == 0 {
		return
	}
	minute := r.mu.burn.at(run.since)
	minute.all += run.count
	if run.late > 0 {
		minute.late += run.count
		r.mu.totals.late += uint64(run.count)
	}
	r.mu.totals.observe(run)
	if into := r.mu.window.at(run.since, fineSlot, (*resourceSlot).reset); into != nil {
		into.observe(run)
	}
}

// totals back the counters of the metrics.
type totals struct {
	// withinBound counts spans by the first of spanBounds that is at least as long. The
	// last element counts the longer ones.
	withinBound [len(spanBounds) + 1]uint64
	late        uint64
	// spans and stages are sums.
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

// resourceSlot is a sixth of a minute of a resource.
type resourceSlot struct {
	spans  sketch
	stages [spanStages]sketch
	bands  spanBands
	// bytes is of all spans, lateBytes of the late ones.
	bytes, lateBytes uint64
	// lateBy counts late spans by their longest stage.
	lateBy [spanStages]uint32
}

func (s *resourceSlot) reset() {
	s.spans.reset()
	for i := range s.stages {
		s.stages[i].reset()
	}
	s.bands.reset()
	s.bytes, s.lateBytes, s.lateBy = 0, 0, [spanStages]uint32{}
}

func (s *resourceSlot) observe(run *spanRun) {
	s.spans.observe(run.span, run.at, run.count)
	b := s.bands.at(run.at / bandBuckets)
	b.count += run.count
	for i, d := range run.stages {
		s.stages[i].observe(d, run.buckets[i], run.count)
		b.stages[i] += d * time.Duration(run.count)
	}
	s.bytes += run.bytes
	if run.late > 0 {
		s.lateBy[run.late-1] += run.count
		s.lateBytes += run.bytes
	}
}

// spanBands adds up stages by the length of the span. A band has the spans of a quarter
// of a doubling. From the bands a report computes the stages of the slowest 1 % of the
// spans, without keeping single spans. The zero value is empty.
type spanBands struct {
	// list begins at the band first.
	first int
	list  []band
}

const (
	bandBuckets = perDoubling / 4
	bandCount   = buckets/bandBuckets + 1
)

type band struct {
	count  uint32
	stages [spanStages]time.Duration
}

// at returns the band i. It extends the list if needed.
func (s *spanBands) at(i int) *band {
	if len(s.list) == 0 {
		s.first = i
	}
	if before := s.first - i; before > 0 {
		s.list = append(make([]band, before, before+len(s.list)), s.list...)
		s.first = i
	}
	for i-s.first >= len(s.list) {
		s.list = append(s.list, band{})
	}
	return &s.list[i-s.first]
}

// reset empties the bands. It keeps the list's memory unless that is large.
func (s *spanBands) reset() {
	if len(s.list) > bandCount/4 {
		s.list = nil
	}
	clear(s.list)
}
