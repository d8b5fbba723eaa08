package slo

import (
	"sync"
	"sync/atomic"
	"time"
)

// peers are the watches of one client with the same subscription. They buffer what
// their client's and their subscription's accounts have to count, so that those two are
// locked and loaded once for several spans.
//
// Lock order: peers before client and subscription.
type peers struct {
	// mu comes first: a delivery touches its cache line alone.
	mu struct {
		sync.Mutex
		// pendingCount is how many of pending are in use. It is written with the lock
		// held. Loads without the lock only prefetch.
		pendingCount atomic.Uint32
		// closed is set when the last watch is closed. Later deliveries are flushed at
		// once.
		closed bool

		// The fields below are not flushed yet.

		events, bytes uint64
		// All pending spans end in the slot of windows that ends at before, which is since
		// the set's beginning. longest is the longest of the spans.
		before, longest time.Duration
		pending         [14]pendingSpan
	}

	client       *clientAccount
	subscription *subscriptionAccount
	// watches counts the open watches. Watches.mu guards it.
	watches int
}

// pendingSpan is spans of the same length that are not flushed yet.
type pendingSpan struct {
	// at is the span's bucket.
	at uint16
	// late is as in spanRun.
	late  uint16
	count uint32
}

type peersKey struct {
	*clientAccount
	*subscriptionAccount
}

// peersLocked returns the peers of a new watch. Watches.mu is held.
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

// leaveLocked removes a watch that ends from its peers.
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

// addDelivery counts a delivery. If it has a span, that is the run's.
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

// addSpansLocked adds spans to pending. It flushes first if pending is full, or if the
// spans end in a later slot of windows.
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

// flush adds what is pending to the client and the subscription.
func (p *peers) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushLocked()
}

func (p *peers) flushLocked() {
	p.client.addPending(p)
	p.subscription.addPending(p)
	p.mu.events, p.mu.bytes = 0, 0
	p.mu.pendingCount.Store(0)
}

// flushPeers flushes all peers, so that reports miss nothing.
func (set *Watches) flushPeers() {
	set.mu.Lock()
	defer set.mu.Unlock()
	for _, p := range set.mu.peers {
		p.flush()
	}
}
