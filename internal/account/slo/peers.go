package slo

import (
	"sync"
	"sync/atomic"
	"time"
)

// peers is a buffer that all watches of one client with the same subscription share. It
// collects their deliveries and adds them to the client's and the subscription's accounts
// later. Many goroutines share those accounts; with the buffer, several spans take one lock
// and one load of each. The cost is that the accounts lag behind until the buffer is
// flushed, so a report flushes all of them first (flushPeers).
//
// Lock order: peers.mu before the locks of the client and the subscription.
type peers struct {
	// mu is the first field, so that a delivery touches few cache lines.
	mu struct {
		sync.Mutex
		// pendingCount is the number of elements of pending that are in use. It is
		// written with the lock held. Loads without the lock only prefetch the cache line.
		pendingCount atomic.Uint32
		// closed is set when the last watch is closed. Deliveries that come later are
		// flushed at once, because no report finds the peers any more.
		closed bool

		// The fields below hold what the next flush adds to the accounts.

		events, bytes uint64
		// before is the end of the time slot in which all pending spans end, as a duration
		// since the set began. A slot has the length coarseSlot.
		before time.Duration
		// longest is the longest pending span.
		longest time.Duration
		pending [14]pendingSpan
	}

	client       *clientAccount
	subscription *subscriptionAccount
	// watches counts the open watches. Watches.mu guards it.
	watches int
}

// pendingSpan is a number of spans that fall into the same bucket.
type pendingSpan struct {
	// at is the index of the bucket.
	at uint16
	// late has the meaning of spanRun.late.
	late uint16
	// count is the number of spans.
	count uint32
}

// peersKey is the key of Watches.mu.peers.
type peersKey struct {
	*clientAccount
	*subscriptionAccount
}

// peersLocked returns the peers that a new watch joins, and counts the watch. It makes them
// for the first watch. The caller holds Watches.mu.
func (set *Watches) peersLocked(c *clientAccount, s *subscriptionAccount) *peers {
	p := set.mu.peers[peersKey{c, s}]
	if p == nil {
		p = &peers{client: c, subscription: s}
		set.mu.peers[peersKey{c, s}] = p
	}
	p.watches++
	c.watches++
	s.watches++
	return p
}

// leaveLocked removes a watch that ends from its peers. The last one flushes them and
// deletes them from the set. The caller holds Watches.mu.
func (set *Watches) leaveLocked(p *peers) {
	now := set.cfg.Clock.Now()
	c, s := p.client, p.subscription
	c.watches--
	s.watches--
	c.lastUsed, s.lastUsed = now, now
	if p.watches--; p.watches > 0 {
		return
	}
	delete(set.mu.peers, peersKey{c, s})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.closed = true
	p.flushLocked()
}

// addDelivery adds a delivery. If the delivery has an arrival, its events have the span of
// run. Otherwise they have none, and run is not used.
func (p *peers) addDelivery(d *delivery, run *spanRun) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.events += uint64(d.count)
	p.mu.bytes += d.bytes
	if d.arrival != nil {
		p.addSpansLocked(run, d.count)
	}
	if p.mu.closed {
		p.flushLocked()
	}
}

// addSpansLocked adds count spans of a run to pending. It flushes first if pending has no
// room, or if the spans end in a later time slot than the pending ones. Spans in the same
// bucket as the last pending ones take no room.
func (p *peers) addSpansLocked(run *spanRun, count uint32) {
	added := pendingSpan{uint16(run.at), run.late, count}
	n := p.mu.pendingCount.Load()
	if n > 0 {
		last := &p.mu.pending[n-1]
		switch same := last.at == added.at && last.late == added.late; {
		case run.since >= p.mu.before || int(n) == len(p.mu.pending) && !same:
			p.flushLocked()
			n = 0
		case same:
			last.count += count
			p.mu.longest = max(p.mu.longest, run.span)
			return
		}
	}
	if n == 0 {
		p.mu.before, p.mu.longest = run.since-run.since%coarseSlot+coarseSlot, 0
	}
	p.mu.pending[n] = added
	p.mu.pendingCount.Store(n + 1)
	p.mu.longest = max(p.mu.longest, run.span)
}

// flush adds the buffered deliveries to the client's and the subscription's accounts.
func (p *peers) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushLocked()
}

// flushLocked is flush with mu held.
func (p *peers) flushLocked() {
	p.client.addPending(p)
	p.subscription.addPending(p)
	p.mu.events, p.mu.bytes = 0, 0
	p.mu.pendingCount.Store(0)
}

// flushPeers flushes all peers. A report calls it before it reads the accounts.
func (set *Watches) flushPeers() {
	set.mu.Lock()
	defer set.mu.Unlock()
	for _, p := range set.mu.peers {
		p.flush()
	}
}
