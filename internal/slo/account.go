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

	mu            sync.Mutex
	window        window[resourceSlot]
	burn          burn
	events, bytes uint64
	expired       uint64
	// watches is how many there are. Watches.mu guards it.
	watches int
	// totals are of all spans since the start.
	totals totals
}

// batch is what one write delivered for the watches of a resource together. It
// belongs to who writes; the zero value is ready.
type batch struct {
	resource *resourceAccount
	// events and bytes are all that was delivered.
	events, bytes uint64
	// runs are by arrival, used of them. When there are more, the oldest ends.
	runs       [4]run
	used, next int
	// told are the senders that were told of the write.
	told []told
}

// told is what a sender was told.
type told struct {
	sender *Sender
	bytes  int
	held   time.Time
	closed time.Duration
}

// run is how often events with the same span were delivered.
type run struct {
	spent
	// late is the stage that it spent most time in, behind one for spans in time.
	late  uint16
	count uint32
	bytes int64
	// entered is when the event came, since when it was delivered; both since the set's
	// beginning.
	entered, since time.Duration
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// batch returns the write's batch.
func (s *Sent) batch() *batch {
	x, ok := s.Local.(*batch)
	if !ok {
		x = batches.Get().(*batch)
		s.Local = x
	}
	return x
}

// of makes the batch one of a resource.
func (x *batch) of(r *resourceAccount) {
	if x.resource != r {
		x.end()
		x.resource = r
	}
}

// end counts the batch behind the last watch of a write.
func (s *Sent) end(x *batch) {
	x.end()
	clear(x.told)
	x.told = x.told[:0]
	s.Local = nil
	batches.Put(x)
}

// run returns the run of events of one arrival.
func (x *batch) run(g *given, s *Sent) *run {
	for i := range x.runs[:x.used] {
		if x.runs[i].same(g, s) {
			return &x.runs[i]
		}
	}
	r := x.resource
	var into *run
	if x.used < len(x.runs) {
		into = &x.runs[x.used]
		x.used++
	} else {
		into = &x.runs[x.next]
		x.next = (x.next + 1) % len(x.runs)
		r.mu.Lock()
		r.observeLocked(into)
		r.mu.Unlock()
	}
	into.count, into.bytes, into.late = 0, 0, 0
	into.set(g, s)
	into.entered, into.since = g.arrival.Entered.Sub(r.set.began), s.Ended.Sub(r.set.began)
	if into.span > r.objective {
		into.late = 1 + uint16(into.longest)
	}
	return into
}

// end has the resource count the batch.
func (x *batch) end() {
	r := x.resource
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events += x.events
	r.bytes += x.bytes
	for i := range x.runs[:x.used] {
		r.observeLocked(&x.runs[i])
		x.runs[i].arrival = nil // it may go
	}
	x.resource, x.events, x.bytes, x.used = nil, 0, 0, 0
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
	bytes, lateBytes int64
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

// clientAccount is of the watches of one client.
type clientAccount struct {
	Client

	mu            sync.Mutex
	window        window[clientSlot]
	events, bytes uint64
	// watches is how many there are, and used when there was one last. Watches.mu
	// guards them.
	watches int
	used    time.Time
}

// clientSlot is a third of a minute of a client.
type clientSlot struct {
	spans  sketch
	late   uint64
	lateBy [spanStages]uint32
}

func (s *clientSlot) reset() {
	s.spans.reset()
	s.late, s.lateBy = 0, [spanStages]uint32{}
}

// observe counts spans that were at most so long.
func (s *clientSlot) observe(x *recent, longest time.Duration) {
	s.spans.observe(longest, int(x.at), x.count)
	if x.late > 0 {
		s.late += uint64(x.count)
		s.lateBy[x.late-1] += x.count
	}
}

// subscriptionAccount is of the watches that select the same.
type subscriptionAccount struct {
	selection string
	resource  *resourceAccount

	mu     sync.Mutex
	window window[sketch]
	events uint64
	// watches is how many there are, and used when there was one last. Watches.mu
	// guards them.
	watches int
	used    time.Time
}

// other is who stands for those beyond the bound.
const other = "other"
