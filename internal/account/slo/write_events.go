package slo

import (
	"sync"

	"github.com/millrace/millrace/internal/wire/entry"
)

// writeEvents is the events that one write carries. It lives in Write.Local until the
// write has returned.
//
// Events of one arrival for watches of the same buffer share an entry, however many
// watches there are. All of them have the same span, since they arrived together and
// leave with the same write. So the span is computed and counted once.
//
// The caller of Sent holds the transport's lock (Transport.Locked), which guards the
// writeEvents.
type writeEvents struct {
	entries []writeEntry
	// current is the index of the entry that add changed most recently.
	current int
	// partials are writes of watches whose queued bytes do not all fit, or whose windows
	// stalled. Their spans differ from those of other watches, so they share no entry.
	partials []partialWrite
}

// writeEntry is events for watches of the same buffer. If arrival is nil, the events have
// no span.
type writeEntry struct {
	// resource is the buffer's resource.
	resource *resourceAccount
	buffer   *deliveryBuffer
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

var writeEventsPool = sync.Pool{New: func() any { return new(writeEvents) }}

// writeEvents returns the write's events. The first call takes them from the pool.
func (w *Write) writeEvents() *writeEvents {
	l, ok := w.Local.(*writeEvents)
	if !ok {
		l = writeEventsPool.Get().(*writeEvents)
		w.Local = l
	}
	return l
}

// maxSearchedEntries is how many entries are searched for one to add to. A longer search
// would cost more than a second entry for the same buffer.
const maxSearchedEntries = 8

// add adds events to the entry of the sender's buffer.
func (l *writeEvents) add(s *Sender, a *entry.Arrival, count uint32, bytes uint64) {
	if l.current >= len(l.entries) || l.entries[l.current].buffer != s.buffer || l.entries[l.current].arrival != a {
		l.selectEntry(s, a)
	}
	e := &l.entries[l.current]
	e.count += count
	e.bytes += bytes
}

// selectEntry sets current to the entry for a sender's events. It appends an entry if it
// finds none.
//
// The entry after the current one is tried first: watches of one connection often send the
// same arrivals in the same order.
func (l *writeEvents) selectEntry(s *Sender, a *entry.Arrival) {
	n, p := len(l.entries), s.buffer
	if i := l.current + 1; i < n && l.entries[i].buffer == p && l.entries[i].arrival == a {
		l.current = i
		return
	}
	for i := n - 1; i >= max(0, n-maxSearchedEntries); i-- {
		if l.entries[i].buffer == p && l.entries[i].arrival == a {
			l.current = i
			return
		}
	}
	l.current = n
	l.entries = append(l.entries, writeEntry{resource: s.resource, buffer: p, arrival: a})
}

// Written counts the events of a write that has returned. A write that failed delivered
// nothing: it is not called then.
func (w *Write) Written() {
	l, ok := w.Local.(*writeEvents)
	if !ok {
		return
	}
	w.Local = nil
	for i := range l.entries {
		e := &l.entries[i]
		e.resource.addDelivery(w, delivery{buffer: e.buffer, arrival: e.arrival, count: e.count, size: e.bytes, bytes: e.bytes})
	}
	for i := range l.partials {
		l.partials[i].addDeliveries(w)
	}
	clear(l.entries)
	clear(l.partials)
	l.entries, l.partials, l.current = l.entries[:0], l.partials[:0], 0
	writeEventsPool.Put(l)
}

// addDeliveries counts the write's bytes now. It counts a batch's events once the last byte
// of the batch was delivered.
func (p *partialWrite) addDeliveries(w *Write) {
	s := p.sender
	r := s.resource
	r.addDelivery(w, delivery{buffer: s.buffer, bytes: p.bytes})
	var events uint64
	done := s.consume(p.bytes, w.FillBegan.Sub(r.set.startedAt), w.Began.Sub(r.set.startedAt))
	for i := range s.earlier[:done] {
		b := &s.earlier[i]
		d := delivery{
			buffer: s.buffer, arrival: b.arrival, count: b.count, size: uint64(b.size), filled: b.filled, encoded: b.encoded, stalled: p.stall.For,
		}
		if d.stalled > 0 {
			d.stalledSince = p.stall.Since.Sub(r.set.startedAt)
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
