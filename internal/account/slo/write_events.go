package slo

import (
	"sync"

	"github.com/millrace/millrace/internal/wire/entry"
)

// writeEvents is the events that one write carries for SendAccounts. It is Write.Local until the
// write has returned.
//
// Events of one arrival for watches of the same buffer share an element of byBuffer, as a rule (see
// maxSearched). They have the same span, since they arrived together and leave with the same write.
// So the span is computed and counted once.
//
// The transport's lock (Transport.WithLock) guards it until the write begins: the caller of
// SendAccount.Placed holds that lock. Then the caller of Written owns it.
type writeEvents struct {
	byBuffer []bufferEvents
	// current is the index in byBuffer that add changed most recently.
	current int
	// partials are of watches whose queued bytes do not all fit, of which a part was sent before,
	// or whose flow-control windows stalled. Their spans differ from the spans of other watches,
	// so they share nothing.
	partials []partialWrite
}

// bufferEvents is events of one arrival for watches of the same buffer.
type bufferEvents struct {
	// resource is the buffer's resource.
	resource *resourceAccount
	buffer   *deliveryBuffer
	// arrival is nil if the events have no span.
	arrival *entry.Arrival
	count   uint32
	bytes   uint64
}

// partialWrite is bytes of one watch that its SendAccount counts, batch by batch.
type partialWrite struct {
	account *SendAccount
	bytes   uint64
	// stall is zero if the flow-control windows have not stalled since they last let everything
	// through.
	stall WindowStall
}

// writeEventsPool has empty writeEvents, whose slices keep their memory.
var writeEventsPool = sync.Pool{New: func() any { return new(writeEvents) }}

// localEvents returns the write's events. The first call takes them from the pool.
func (w *Write) localEvents() *writeEvents {
	events, ok := w.Local.(*writeEvents)
	if !ok {
		events = writeEventsPool.Get().(*writeEvents)
		w.Local = events
	}
	return events
}

// maxSearched is how many elements of byBuffer are searched for one to add to. A longer search
// would cost more than a second element for the same buffer.
const maxSearched = 8

// add adds events to the element of the account's buffer and the arrival a.
func (events *writeEvents) add(s *SendAccount, a *entry.Arrival, count uint32, bytes uint64) {
	if events.current >= len(events.byBuffer) || events.byBuffer[events.current].buffer != s.buffer || events.byBuffer[events.current].arrival != a {
		events.selectBuffer(s, a)
	}
	e := &events.byBuffer[events.current]
	e.count += count
	e.bytes += bytes
}

// selectBuffer sets current to the element of the account's buffer and the arrival a. It appends an
// element if it finds none.
//
// The element after the current one is tried first: watches of one connection often send the
// same arrivals in the same order.
func (events *writeEvents) selectBuffer(s *SendAccount, a *entry.Arrival) {
	n, buffer := len(events.byBuffer), s.buffer
	if i := events.current + 1; i < n && events.byBuffer[i].buffer == buffer && events.byBuffer[i].arrival == a {
		events.current = i
		return
	}
	for i := n - 1; i >= max(0, n-maxSearched); i-- {
		if events.byBuffer[i].buffer == buffer && events.byBuffer[i].arrival == a {
			events.current = i
			return
		}
	}
	events.current = n
	events.byBuffer = append(events.byBuffer, bufferEvents{resource: s.resource, buffer: buffer, arrival: a})
}

// Written counts the events of a write that has returned. It must not be called for a write that
// failed: such a write is not counted, though a part of its bytes may have arrived.
func (w *Write) Written() {
	events, ok := w.Local.(*writeEvents)
	if !ok {
		return
	}
	w.Local = nil
	for i := range events.byBuffer {
		e := &events.byBuffer[i]
		e.resource.addDelivery(w, delivery{buffer: e.buffer, arrival: e.arrival, count: e.count, size: e.bytes, bytes: e.bytes})
	}
	for i := range events.partials {
		events.partials[i].addDeliveries(w)
	}
	clear(events.byBuffer)
	clear(events.partials)
	events.byBuffer, events.partials, events.current = events.byBuffer[:0], events.partials[:0], 0
	writeEventsPool.Put(events)
}

// addDeliveries counts the write's bytes now. It counts a batch's events once the last byte
// of the batch was delivered.
func (p *partialWrite) addDeliveries(w *Write) {
	s := p.account
	r := s.resource
	r.addDelivery(w, delivery{buffer: s.buffer, bytes: p.bytes})
	var events uint64
	done := s.consume(p.bytes, w.FillBegan.Sub(r.set.startedAt), w.Began.Sub(r.set.startedAt))
	for i := range s.earlier[:done] {
		b := &s.earlier[i]
		d := delivery{
			buffer: s.buffer, arrival: b.arrival, count: b.count, size: uint64(b.size), fillBegan: b.fillBegan, encoded: b.encoded, stalled: p.stall.For,
		}
		if d.stalled > 0 {
			d.stalledSince = p.stall.Since.Sub(r.set.startedAt)
		}
		r.addDelivery(w, d)
		events += uint64(b.count)
	}
	s.dropFront(done)
	s.withLock(func(uint64) {
		s.placedEvents += events
		s.placedBytes += p.bytes
	})
}
