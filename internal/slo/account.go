package slo

import (
	"sync"
	"time"
)

// resourceAccount is of the watches of one resource.
type resourceAccount struct {
	set       *Watches
	name      string
	objective time.Duration
	// history is the newest watch's.
	history History

	mu sync.Mutex
	// waiting are deliveries that are not counted yet, waits of them.
	waiting       *[waiting]delivery
	waits         int
	window        window[resourceSlot]
	burn          burn
	events, bytes uint64
	expired       uint64
	// totals are of all spans since the start.
	totals totals
}

func (r *resourceAccount) observeLocked(x *run) {
	if x.count == 0 {
		return
	}
	in := r.burn.at(x.since)
	in.all += x.count
	if x.late > 0 {
		in.late += x.count
		r.totals.late += uint64(x.count)
	}
	r.totals.observe(x)
	if into := r.window.at(x.since, fine, (*resourceSlot).reset); into != nil {
		into.observe(x)
	}
}

// totals are what metrics tell.
type totals struct {
	// within counts spans by the first of spanBounds that they are within, and the
	// rest behind.
	within [len(spanBounds) + 1]uint64
	late   uint64
	spans  time.Duration
	stages [spanStages]time.Duration
}

// spanBounds are the buckets of millrace_watch_span_seconds.
var spanBounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, time.Minute,
}

func (t *totals) observe(x *run) {
	i, n := 0, x.count
	for i < len(spanBounds) && x.span > spanBounds[i] {
		i++
	}
	t.within[i] += uint64(n)
	t.spans += x.span * time.Duration(n)
	for i, d := range x.stages {
		t.stages[i] += d * time.Duration(n)
	}
}

// resourceSlot is a sixth of a minute of a resource.
type resourceSlot struct {
	spans  sketch
	stages [spanStages]sketch
	// parts divide the time of spans of about the same length by stages.
	parts parts
	// bytes is of all spans, lateBytes of those that were late.
	bytes, lateBytes uint64
	lateBy           [spanStages]uint32
}

func (s *resourceSlot) reset() {
	s.spans.reset()
	for i := range s.stages {
		s.stages[i].reset()
	}
	s.parts.reset()
	s.bytes, s.lateBytes, s.lateBy = 0, 0, [spanStages]uint32{}
}

func (s *resourceSlot) observe(x *run) {
	s.spans.observe(x.span, x.at, x.count)
	p := s.parts.at(x.at / partBuckets)
	p.count += x.count
	for i, d := range x.stages {
		s.stages[i].observe(d, x.buckets[i], x.count)
		p.stages[i] += d * time.Duration(x.count)
	}
	s.bytes += x.bytes
	if x.late > 0 {
		s.lateBy[x.late-1] += x.count
		s.lateBytes += x.bytes
	}
}

// parts are by quarters of doublings of the span.
type parts struct {
	first int
	list  []part
}

const (
	partBuckets = perDoubling / 4
	allParts    = buckets/partBuckets + 1
)

type part struct {
	count  uint32
	stages [spanStages]time.Duration
}

func (p *parts) at(i int) *part {
	if len(p.list) == 0 {
		p.first = i
	}
	if before := p.first - i; before > 0 {
		p.list = append(make([]part, before, before+len(p.list)), p.list...)
		p.first = i
	}
	for i-p.first >= len(p.list) {
		p.list = append(p.list, part{})
	}
	return &p.list[i-p.first]
}

func (p *parts) reset() {
	if len(p.list) > allParts/4 {
		p.list = nil
	}
	clear(p.list)
}
