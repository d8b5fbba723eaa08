package slo

import (
	"sync"
	"sync/atomic"
	"time"
)

// peers are the watches of one client that select the same. Client and subscription are
// told of what they are sent a few spans at a time.
type peers struct {
	// What a delivery touches comes first, a line of the processor's caches.

	mu sync.Mutex
	// used is how many of the spans there are. Who changes it has the lock.
	used atomic.Uint32
	// gone says that there are no watches any more: what is written later is told at
	// once.
	gone bool
	// What follows was not told to client and subscription yet.

	events, bytes uint64
	// end is what all spans are from before, since the set's beginning. longest is the
	// longest of them.
	end, longest time.Duration
	spans        [14]recent

	client       *clientAccount
	subscription *subscriptionAccount
	// watches is how many there are. Watches.mu guards it.
	watches int
}

// recent is a span that was not told yet.
type recent struct {
	at uint16
	// late is the stage that it spent most time in, behind one for spans in time.
	late  uint16
	count uint32
}

type peersKey struct {
	*clientAccount
	*subscriptionAccount
}

// peersLocked returns the peers of a watch that is new.
func (x *Watches) peersLocked(c *clientAccount, s *subscriptionAccount) *peers {
	p := x.mu.peers[peersKey{c, s}]
	if p == nil {
		p = &peers{client: c, subscription: s}
		x.mu.peers[peersKey{c, s}] = p
	}
	p.watches++
	c.watches++
	s.watches++
	return p
}

// leaveLocked takes a watch that ends from its peers.
func (x *Watches) leaveLocked(p *peers) {
	now := x.cfg.Clock.Now()
	c, s := p.client, p.subscription
	c.watches--
	s.watches--
	c.used, s.used = now, now
	if p.watches--; p.watches > 0 {
		return
	}
	delete(x.mu.peers, peersKey{c, s})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	p.tellLocked()
}

// settle counts a delivery, with the run that it belongs to if it has a span.
func (p *peers) settle(d *delivery, of *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events += uint64(d.count)
	p.bytes += d.bytes
	if d.arrival != nil {
		p.noteLocked(of, d.count)
	}
	if p.gone {
		p.tellLocked()
	}
}

// noteLocked notes spans that were delivered.
func (p *peers) noteLocked(of *run, count uint32) {
	one := recent{uint16(of.at), of.late, count}
	used := p.used.Load()
	if used > 0 {
		last := &p.spans[used-1]
		switch same := last.at == one.at && last.late == one.late; {
		case of.since >= p.end || int(used) == len(p.spans) && !same:
			p.tellLocked()
			used = 0
		case same:
			last.count += count
			p.longest = max(p.longest, of.span)
			return
		}
	}
	if used == 0 {
		p.end, p.longest = of.since-of.since%coarse+coarse, 0
	}
	p.spans[used] = one
	p.used.Store(used + 1)
	p.longest = max(p.longest, of.span)
}

// tell has the client and the subscription know all that is known here.
func (p *peers) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tellLocked()
}

func (p *peers) tellLocked() {
	p.client.tell(p)
	p.subscription.tell(p)
	p.events, p.bytes = 0, 0
	p.used.Store(0)
}

// tellAll has all clients and subscriptions told.
func (x *Watches) tellAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.mu.peers {
		p.tell()
	}
}
