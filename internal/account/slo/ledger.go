package slo

import (
	"sync"

	"github.com/millrace/millrace/internal/wire/entry"
)

// ledger is the events that one write carries. It lives in Write.Local until the write
// has returned.
//
// Events of one arrival for watches of the same peers share an entry, however many
// watches there are. All of them have the same span, since they arrived together and
// leave with the same write. So the span is computed and counted once.
//
// The caller of Sent holds the connection's lock, and that guards the ledger.
type ledger struct {
	entries []ledgerEntry
	// last is the index of the entry that was added to last.
	last int
	// partials are writes of watches whose queued bytes do not all fit, or whose windows
	// stalled. Their spans differ from those of other watches, so they share no entry.
	partials []partialWrite
}

// ledgerEntry is events for watches of the same peers. Without an arrival they have no span.
type ledgerEntry struct {
	// resource is the peers' resource.
	resource *resourceAccount
	peers    *peers
	arrival  *entry.Arrival
	count    uint32
	bytes    uint64
}

// partialWrite is bytes of one watch that are counted at the sender, batch by batch.
type partialWrite struct {
	sender *Sender
	bytes  uint64
	// stall is zero if the windows are open.
	stall WindowStall
}

var ledgers = sync.Pool{New: func() any { return new(ledger) }}

// ledger returns the write's ledger. The first call takes one from the pool.
func (w *Write) ledger() *ledger {
	l, ok := w.Local.(*ledger)
	if !ok {
		l = ledgers.Get().(*ledger)
		w.Local = l
	}
	return l
}

// maxSearched is how many entries are searched for one to add to. More would cost more
// than a second entry for the same peers.
const maxSearched = 8

// add adds events to the entry of the sender's peers.
func (l *ledger) add(s *Sender, a *entry.Arrival, count uint32, bytes uint64) {
	if l.last >= len(l.entries) || l.entries[l.last].peers != s.peers || l.entries[l.last].arrival != a {
		l.selectEntry(s, a)
	}
	e := &l.entries[l.last]
	e.count += count
	e.bytes += bytes
}

// selectEntry sets last to the entry for a sender's events. It appends an entry if it
// finds none.
//
// The entry after the last one is tried first: watches of one connection often send the
// same arrivals in the same order.
func (l *ledger) selectEntry(s *Sender, a *entry.Arrival) {
	n, p := len(l.entries), s.peers
	if i := l.last + 1; i < n && l.entries[i].peers == p && l.entries[i].arrival == a {
		l.last = i
		return
	}
	for i := n - 1; i >= max(0, n-maxSearched); i-- {
		if l.entries[i].peers == p && l.entries[i].arrival == a {
			l.last = i
			return
		}
	}
	l.last = n
	l.entries = append(l.entries, ledgerEntry{resource: s.resource, peers: p, arrival: a})
}

// Written counts the events of a write that has returned. A write that failed delivered
// nothing: it is not called then.
func (w *Write) Written() {
	l, ok := w.Local.(*ledger)
	if !ok {
		return
	}
	w.Local = nil
	for i := range l.entries {
		e := &l.entries[i]
		e.resource.addDelivery(w, delivery{peers: e.peers, arrival: e.arrival, count: e.count, size: e.bytes, bytes: e.bytes})
	}
	for i := range l.partials {
		l.partials[i].addDeliveries(w)
	}
	clear(l.entries)
	clear(l.partials)
	l.entries, l.partials, l.last = l.entries[:0], l.partials[:0], 0
	ledgers.Put(l)
}

// addDeliveries counts the bytes at once, and the events of the batches that are
// delivered completely now.
func (p *partialWrite) addDeliveries(w *Write) {
	s := p.sender
	r := s.resource
	r.addDelivery(w, delivery{peers: s.peers, bytes: p.bytes})
	var events uint64
	done := s.consume(p.bytes, w.FillBegan.Sub(r.set.began), w.Began.Sub(r.set.began))
	for i := range s.earlier[:done] {
		b := &s.earlier[i]
		d := delivery{
			peers: s.peers, arrival: b.arrival, count: b.count, size: uint64(b.size), filled: b.filled, encoded: b.encoded, stalled: p.stall.For,
		}
		if d.stalled > 0 {
			d.stalledSince = p.stall.Since.Sub(r.set.began)
		}
		r.addDelivery(w, d)
		events += uint64(b.count)
	}
	s.dropWritten(done)
	s.withLock(func(uint64) {
		s.events += events
		s.bytes += p.bytes
	})
}
