package slo

import (
	"sync"
	"time"
)

// ledger is what one write carries for watches, until it has returned. Events of one
// arrival for watches of one client and subscription are one entry, however many
// watches there are: all of them have the same span, which is known when the write
// has returned, and is counted once.
type ledger struct {
	entries []entry
	// at is the entry that was added to last.
	at int
	// pieces are of watches that were not sent all that they were given, or whose
	// windows were shut: nobody has their spans.
	pieces []piece
}

// entry is what some peers were sent. Without an arrival it has no span.
type entry struct {
	// resource is that of the peers.
	resource *resourceAccount
	peers    *peers
	arrival  *Arrival
	count    uint32
	bytes    uint64
}

type piece struct {
	sender *Sender
	bytes  uint64
	// shut is zero if the windows are open.
	shut WindowStall
}

var ledgers = sync.Pool{New: func() any { return new(ledger) }}

// ledger returns the write's ledger.
func (w *Write) ledger() *ledger {
	l, ok := w.Local.(*ledger)
	if !ok {
		l = ledgers.Get().(*ledger)
		w.Local = l
	}
	return l
}

// searched is how many entries are looked at for one to join.
const searched = 8

// add adds to an entry, the last one if that can be.
func (l *ledger) add(x *Sender, a *Arrival, count uint32, bytes uint64) {
	if l.at >= len(l.entries) || l.entries[l.at].peers != x.peers || l.entries[l.at].arrival != a {
		l.find(x, a)
	}
	e := &l.entries[l.at]
	e.count += count
	e.bytes += bytes
}

// find looks for an entry, first behind the last one, for the next watch is often sent
// the same in the same order. It makes one if there is none.
func (l *ledger) find(x *Sender, a *Arrival) {
	n, p := len(l.entries), x.peers
	if i := l.at + 1; i < n && l.entries[i].peers == p && l.entries[i].arrival == a {
		l.at = i
		return
	}
	for i := n - 1; i >= max(0, n-searched); i-- {
		if l.entries[i].peers == p && l.entries[i].arrival == a {
			l.at = i
			return
		}
	}
	l.at = n
	l.entries = append(l.entries, entry{resource: x.resource, peers: p, arrival: a})
}

// Written counts what a write has delivered that has returned. One that failed has
// delivered nothing.
func (w *Write) Written() {
	l, ok := w.Local.(*ledger)
	if !ok {
		return
	}
	w.Local = nil
	for i := range l.entries {
		e := &l.entries[i]
		e.resource.deliver(w, delivery{peers: e.peers, arrival: e.arrival, count: e.count, size: e.bytes, bytes: e.bytes})
	}
	for i := range l.pieces {
		l.pieces[i].deliver(w)
	}
	clear(l.entries)
	clear(l.pieces)
	l.entries, l.pieces, l.at = l.entries[:0], l.pieces[:0], 0
	ledgers.Put(l)
}

// deliver counts a piece.
func (p *piece) deliver(w *Write) {
	x := p.sender
	r := x.resource
	r.deliver(w, delivery{peers: x.peers, bytes: p.bytes})
	var events uint64
	done := x.wrote(p.bytes, w.Filled.Sub(r.set.began), w.Began.Sub(r.set.began))
	for i := range x.before[:done] {
		g := &x.before[i]
		d := delivery{
			peers: x.peers, arrival: g.arrival, count: g.count, size: uint64(g.size), taken: g.taken, encoded: g.encoded, shut: p.shut.For,
		}
		if d.shut > 0 {
			d.held = p.shut.Since.Sub(r.set.began)
		}
		r.deliver(w, d)
		events += uint64(g.count)
	}
	x.forget(done)
	x.locked(func(uint64) {
		x.events += events
		x.bytes += p.bytes
	})
}

// delivery is events of one arrival that were delivered to some peers by one write.
// Times are since the set's beginning.
type delivery struct {
	peers *peers
	// arrival is nil for what has no span.
	arrival *Arrival
	count   uint32
	// size is the bytes of the events, bytes those that were written with them.
	size, bytes uint64
	// taken and encoded are the events', 0 if those are the write's, of which began and
	// ended are.
	taken, encoded, began, ended time.Duration
	busy, writing                time.Duration
	// shut is how long the client's windows were shut since held.
	held, shut time.Duration
}

// waiting is how many deliveries wait to be counted together: behind a write nothing
// that counting needs is in the processor's caches, its code included.
const waiting = 32

var rooms = sync.Pool{New: func() any { return new([waiting]delivery) }}

// deliver notes a delivery of a write, to be counted later.
func (r *resourceAccount) deliver(w *Write, d delivery) {
	t := r.set.began
	d.began, d.ended, d.busy, d.writing = w.Began.Sub(t), w.Ended.Sub(t), w.Busy.Sub(t), w.Writing
	if d.encoded == 0 {
		d.taken, d.encoded = w.Filled.Sub(t), d.began
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = rooms.Get().(*[waiting]delivery)
	}
	r.waiting[r.waits] = d
	if r.waits++; r.waits == waiting {
		r.settleLocked()
	}
}

// settle counts what waits for it.
func (r *resourceAccount) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settleLocked()
}

// settleLocked counts what waits for it.
func (r *resourceAccount) settleLocked() {
	if r.waits == 0 {
		return
	}
	list := r.waiting[:r.waits]
	for i := range list {
		// The memory of all is asked for at once and waited for once: these loads wait for
		// nothing, as locks would.
		list[i].peers.used.Load()
	}
	var x run
	for i := range list {
		d := &list[i]
		r.events += uint64(d.count)
		r.bytes += d.bytes
		if d.arrival != nil {
			if i == 0 || !d.same(&list[i-1]) || x.count == 0 {
				r.observeLocked(&x)
				x.set(d, r)
			}
			x.count += d.count
			x.bytes += d.size
		}
		d.peers.settle(d, &x)
	}
	r.observeLocked(&x)
	clear(list)
	rooms.Put(r.waiting)
	r.waiting, r.waits = nil, 0
}
