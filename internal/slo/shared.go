package slo

import (
	"sync"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// sharedAccount is of the watches of one client, or of those that select the same.
type sharedAccount struct {
	mu            sync.Mutex
	window        window[sharedSlot]
	events, bytes uint64
	// watches is how many there are, and used when there was one last. Watches.mu
	// guards them.
	watches int
	used    time.Time
}

// sharedSlot is a third of a minute of a sharedAccount.
type sharedSlot struct {
	spans  sketch
	late   uint64
	lateBy [spanStages]uint32
}

func (s *sharedSlot) reset() {
	s.spans.reset()
	s.late, s.lateBy = 0, [spanStages]uint32{}
}

// observe counts spans that were at most so long.
func (s *sharedSlot) observe(x *recent, longest time.Duration) {
	s.spans.observe(longest, int(x.at), x.count)
	if x.late > 0 {
		s.late += uint64(x.count)
		s.lateBy[x.late-1] += x.count
	}
}

// clientAccount is of the watches of one client.
type clientAccount struct {
	report.Client
	sharedAccount
}

// subscriptionAccount is of the watches that select the same.
type subscriptionAccount struct {
	selection string
	resource  *resourceAccount
	sharedAccount
}

// other is who stands for those beyond the bound.
const other = "other"

// add counts what was delivered.
func (a *sharedAccount) add(events, bytes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events += events
	a.bytes += bytes
}

// tell counts what was delivered, with spans.
func (a *sharedAccount) tell(x *peers) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events += x.events
	a.bytes += x.bytes
	spans := x.spans[:x.used.Load()]
	if len(spans) == 0 {
		return
	}
	if into := a.window.at(x.end-coarse, coarse, (*sharedSlot).reset); into != nil {
		for i := range spans {
			into.observe(&spans[i], x.longest)
		}
	}
}

func (a *sharedAccount) counts() *sharedAccount { return a }

// sums are of the last minute, but for events and bytes.
type sums struct {
	spans         report.Quantiles
	late          uint64
	lateBy        [spanStages]uint64
	watches       int
	events, bytes uint64
}

// sumUp calls use with those accounts that had events in the last minute.
func sumUp[K comparable, A interface{ counts() *sharedAccount }](x *Watches, accounts map[K]A, since time.Duration, use func(A, *sums)) {
	type one struct {
		of      A
		watches int
	}
	x.mu.Lock()
	list := make([]one, 0, len(accounts))
	for _, of := range accounts {
		list = append(list, one{of, of.counts().watches})
	}
	x.mu.Unlock()
	spans := new(tally)
	for _, o := range list {
		*spans = tally{}
		told := sums{watches: o.watches}
		a := o.of.counts()
		a.mu.Lock()
		told.events, told.bytes = a.events, a.bytes
		a.window.each(since, coarse, func(s *sharedSlot) {
			spans.add(&s.spans)
			told.late += s.late
			for i, n := range s.lateBy {
				told.lateBy[i] += uint64(n)
			}
		})
		a.mu.Unlock()
		if spans.count > 0 {
			told.spans = spans.quantiles()
			use(o.of, &told)
		}
	}
}
