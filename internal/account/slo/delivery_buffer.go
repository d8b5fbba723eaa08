package slo

import (
	"sync"
	"sync/atomic"
	"time"
)

// deliveryBuffer collects the deliveries of all watches of one client with the same
// subscription. It adds them to the client's and the subscription's accounts later. Many
// goroutines share those accounts. For several spans the buffer takes each account's lock
// once, and loads its cache line once. The cost is that the accounts lag until the buffer
// is flushed, so a report flushes all buffers first (flushBuffers).
//
// Lock order: deliveryBuffer.mu before the locks of the client and the subscription.
type deliveryBuffer struct {
	// mu is the first field, so that a delivery touches few cache lines.
	mu struct {
		sync.Mutex
		// pendingCount is the number of elements of pending that are in use. It is
		// written with the lock held. Loads without the lock only fetch the cache line.
		pendingCount atomic.Uint32
		// closed is set when the last watch is closed. Deliveries that come later are
		// flushed immediately, because no report finds the buffer any more.
		closed bool

		// The fields below hold what the next flush adds to the accounts.

		events, bytes uint64
		// slotEnd is the end of the slot, coarseSlot long, that counts all pending spans. It
		// is an offset from Watches.startedAt. A span that came late may have ended before
		// that slot.
		slotEnd time.Duration
		// longest is the longest pending span.
		longest time.Duration
		pending [14]pendingSpan
	}

	client       *clientAccount
	subscription *subscriptionAccount
	// watches counts the open watches of the buffer. Watches.mu guards it.
	watches int
}

// pendingSpan is a number of spans that fall into the same bucket.
type pendingSpan struct {
	bucket    uint16
	lateStage lateStage
	count     uint32
}

// bufferKey is the key of Watches.mu.buffers.
type bufferKey struct {
	*clientAccount
	*subscriptionAccount
}

// joinBufferLocked returns the buffer of a new watch, and counts the watch. It makes the
// buffer for the first watch. The caller holds Watches.mu.
func (set *Watches) joinBufferLocked(c *clientAccount, s *subscriptionAccount) *deliveryBuffer {
	b := set.mu.buffers[bufferKey{c, s}]
	if b == nil {
		b = &deliveryBuffer{client: c, subscription: s}
		set.mu.buffers[bufferKey{c, s}] = b
	}
	b.watches++
	c.watches++
	s.watches++
	return b
}

// leaveBufferLocked uncounts a watch that ends. After the last watch it flushes the buffer
// and removes it from the set. The caller holds Watches.mu.
func (set *Watches) leaveBufferLocked(b *deliveryBuffer) {
	now := set.cfg.Clock.Now()
	c, s := b.client, b.subscription
	c.watches--
	s.watches--
	c.lastUsed, s.lastUsed = now, now
	if b.watches--; b.watches > 0 {
		return
	}
	delete(set.mu.buffers, bufferKey{c, s})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = true
	b.flushLocked()
}

// addDelivery adds a delivery. If the delivery has an arrival, its events have the span of
// run. Otherwise they have none, and run is not used.
func (b *deliveryBuffer) addDelivery(d *delivery, run *spanRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.events += uint64(d.count)
	b.mu.bytes += d.bytes
	if d.arrival != nil {
		b.addSpansLocked(run, d.count)
	}
	if b.mu.closed {
		b.flushLocked()
	}
}

// addSpansLocked adds count spans of a run to pending. It flushes first if pending has no
// room, or if the spans end in a later time slot than the pending ones. Spans in the same
// bucket as the last pending ones take no room.
func (b *deliveryBuffer) addSpansLocked(run *spanRun, count uint32) {
	added := pendingSpan{uint16(run.bucket), run.lateStage, count}
	n := b.mu.pendingCount.Load()
	if n > 0 {
		last := &b.mu.pending[n-1]
		switch same := last.bucket == added.bucket && last.lateStage == added.lateStage; {
		case run.end >= b.mu.slotEnd || int(n) == len(b.mu.pending) && !same:
			b.flushLocked()
			n = 0
		case same:
			last.count += count
			b.mu.longest = max(b.mu.longest, run.span)
			return
		}
	}
	if n == 0 {
		b.mu.slotEnd, b.mu.longest = run.end-run.end%coarseSlot+coarseSlot, 0
	}
	b.mu.pending[n] = added
	b.mu.pendingCount.Store(n + 1)
	b.mu.longest = max(b.mu.longest, run.span)
}

// flush adds the buffered deliveries to the client's and the subscription's accounts.
func (b *deliveryBuffer) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushLocked()
}

// flushLocked is flush, for callers that hold mu.
func (b *deliveryBuffer) flushLocked() {
	b.client.addPending(b)
	b.subscription.addPending(b)
	b.mu.events, b.mu.bytes = 0, 0
	b.mu.pendingCount.Store(0)
}

// flushBuffers flushes all buffers. A report calls it before it reads the accounts.
func (set *Watches) flushBuffers() {
	set.mu.Lock()
	defer set.mu.Unlock()
	for _, b := range set.mu.buffers {
		b.flush()
	}
}
