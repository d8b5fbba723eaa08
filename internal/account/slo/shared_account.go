package slo

import (
	"sync"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// sharedAccount is what clientAccount and subscriptionAccount have in common. Their
// numbers go into the thousands, so spans are counted in few and coarse slots.
type sharedAccount struct {
	mu struct {
		sync.Mutex
		lastMinute    slidingMinute[sharedSlot]
		events, bytes uint64
	}
	// watches counts the open watches. Watches.mu guards it and lastUsed.
	watches int
	// lastUsed is when one of its watches was last closed. It is zero before that.
	lastUsed time.Time
}

// sharedSlot sums the spans of a sharedAccount within coarseSlot.
type sharedSlot struct {
	spans sketch
	late  uint64
	// lateBy counts late spans by their longest stage.
	lateBy [spanStageCount]uint32
}

func (s *sharedSlot) reset() {
	s.spans.reset()
	s.late, s.lateBy = 0, [spanStageCount]uint32{}
}

// observe counts spans. longest is at least their length.
func (s *sharedSlot) observe(p *pendingSpan, longest time.Duration) {
	s.spans.observe(longest, int(p.bucket), p.count)
	if p.lateStage != noStage {
		s.late += uint64(p.count)
		s.lateBy[p.lateStage.index()] += p.count
	}
}

// clientAccount is the account of the watches of one client.
type clientAccount struct {
	serverreport.Client
	sharedAccount
}

// subscriptionAccount is the account of the watches of one resource with the same
// selection.
type subscriptionAccount struct {
	selection string
	resource  *resourceAccount
	sharedAccount
}

// otherName names the account that clients without an account of their own share, and
// likewise the selections of a resource.
const otherName = "other"

// add adds to the sums of events and bytes, without spans.
func (a *sharedAccount) add(events, bytes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.events += events
	a.mu.bytes += bytes
}

// addPending counts what is pending in a buffer. The caller holds the buffer's lock.
func (a *sharedAccount) addPending(b *deliveryBuffer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.events += b.mu.events
	a.mu.bytes += b.mu.bytes
	spans := b.mu.pending[:b.mu.pendingCount.Load()]
	if len(spans) == 0 {
		return
	}
	if slot := a.mu.lastMinute.slotFor(b.mu.slotEnd-coarseSlot, coarseSlot, (*sharedSlot).reset); slot != nil {
		for i := range spans {
			slot.observe(&spans[i], b.mu.longest)
		}
	}
}

func (a *sharedAccount) shared() *sharedAccount { return a }

// sharedSums adds up the last minute of a sharedAccount. events and bytes are since the
// account was made.
type sharedSums struct {
	spans         serverreport.Quantiles
	late          uint64
	lateBy        [spanStageCount]uint64
	watches       int
	events, bytes uint64
}

// eachActive calls use with the accounts that had spans in the last minute. Watches.mu guards
// accounts. The caller must not hold it.
func eachActive[K comparable, A interface{ shared() *sharedAccount }](set *Watches, accounts map[K]A, offset time.Duration, use func(A, *sharedSums)) {
	type counted struct {
		account A
		watches int
	}
	set.mu.Lock()
	list := make([]counted, 0, len(accounts))
	for _, a := range accounts {
		list = append(list, counted{a, a.shared().watches})
	}
	set.mu.Unlock()
	spans := new(tally)
	for _, c := range list {
		*spans = tally{}
		sums := sharedSums{watches: c.watches}
		a := c.account.shared()
		a.mu.Lock()
		sums.events, sums.bytes = a.mu.events, a.mu.bytes
		a.mu.lastMinute.eachSlot(offset, coarseSlot, func(s *sharedSlot) {
			spans.add(&s.spans)
			sums.late += s.late
			for i, n := range s.lateBy {
				sums.lateBy[i] += uint64(n)
			}
		})
		a.mu.Unlock()
		if spans.count > 0 {
			sums.spans = spans.quantiles()
			use(c.account, &sums)
		}
	}
}
