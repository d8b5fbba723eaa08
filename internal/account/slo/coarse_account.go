package slo

import (
	"sync"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// coarseAccount is the part that clientAccount and subscriptionAccount have in common. There are
// thousands of them, so spans are counted in few and coarse slots.
type coarseAccount struct {
	mu struct {
		sync.Mutex
		lastMinute slidingMinute[coarseAccountSlot]
		// events and bytes are sums since the account was made. The account otherName of clients
		// also has the sums of clients that were dropped.
		events, bytes uint64
	}
	// watches counts the open watches. Watches.mu guards it and lastUsed.
	watches int
	// lastUsed is when one of its watches was last closed. It is zero before that.
	lastUsed time.Time
}

// coarseAccountSlot sums the spans of a coarseAccount within coarseSlot.
type coarseAccountSlot struct {
	spans sketch
	late  uint64
	// lateBy counts late spans by their longest stage.
	lateBy [spanStageCount]uint32
}

func (s *coarseAccountSlot) reset() {
	s.spans.reset()
	s.late, s.lateBy = 0, [spanStageCount]uint32{}
}

// observe counts spans. longest is at least their length.
func (s *coarseAccountSlot) observe(p *pendingSpan, longest time.Duration) {
	s.spans.observe(longest, int(p.bucket), p.count)
	if p.lateStage != noStage {
		s.late += uint64(p.count)
		s.lateBy[p.lateStage.index()] += p.count
	}
}

// clientAccount is the account of the watches of one client.
type clientAccount struct {
	serverreport.Client
	coarseAccount
}

// subscriptionAccount is the account of the watches of one resource with the same
// selection.
type subscriptionAccount struct {
	selection string
	resource  *resourceAccount
	coarseAccount
}

// otherName is the name of two kinds of accounts: of the clients beyond Config.Clients and, for
// each resource, of the selections beyond Config.Subscriptions.
const otherName = "other"

// add adds to the sums of events and bytes, without spans.
func (a *coarseAccount) add(events, bytes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.events += events
	a.mu.bytes += bytes
}

// addPending counts what is pending in a buffer. The caller holds the buffer's lock.
func (a *coarseAccount) addPending(b *deliveryBuffer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.events += b.mu.events
	a.mu.bytes += b.mu.bytes
	spans := b.mu.pending[:b.mu.pendingCount.Load()]
	if len(spans) == 0 {
		return
	}
	if slot := a.mu.lastMinute.slotFor(b.mu.slotEnd-coarseSlot, coarseSlot, (*coarseAccountSlot).reset); slot != nil {
		for i := range spans {
			slot.observe(&spans[i], b.mu.longest)
		}
	}
}

func (a *coarseAccount) coarse() *coarseAccount { return a }

// coarseSums adds up the last minute of a coarseAccount. events and bytes are the account's sums.
type coarseSums struct {
	spans         serverreport.Quantiles
	late          uint64
	lateBy        [spanStageCount]uint64
	watches       int
	events, bytes uint64
}

// eachActive calls use with the accounts that had spans in the last minute. offset is the present
// time, as an offset from Watches.startedAt. The caller flushes the buffers first, and must not
// hold Watches.mu, which guards the map accounts.
func eachActive[K comparable, A interface{ coarse() *coarseAccount }](set *Watches, accounts map[K]A, offset time.Duration, use func(A, *coarseSums)) {
	type counted struct {
		account A
		watches int
	}
	set.mu.Lock()
	list := make([]counted, 0, len(accounts))
	for _, a := range accounts {
		list = append(list, counted{a, a.coarse().watches})
	}
	set.mu.Unlock()
	spans := new(tally)
	for _, c := range list {
		*spans = tally{}
		sums := coarseSums{watches: c.watches}
		a := c.account.coarse()
		a.mu.Lock()
		sums.events, sums.bytes = a.mu.events, a.mu.bytes
		a.mu.lastMinute.eachSlot(offset, coarseSlot, func(s *coarseAccountSlot) {
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
