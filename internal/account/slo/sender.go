package slo

import (
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/wire/entry"
)

// Sender is the account of the events that one watch sends after its initial events.
// One goroutine at a time may call Queue, Sent and Write.Written.
//
//	Queue ──► queued ──Sent, all of it───► entry of the writeEvents ───Written──► delivered
//	                 ──Sent, a part of it► partial of the writeEvents ─Written──► delivered
//
// An event may go to thousands of watches. None of their accounts is in the
// processor's caches then, and cache misses are most of the cost of measuring. So an event
// that is sent whole touches only the first fields of the Sender, which are one cache line,
// and the writeEvents. The caller keeps the Sender next to the state that it reads for each
// event in any case. The accounts of the resource, the client and the subscription are
// updated later, for many deliveries together (see deliveryBatch and deliveryBuffer).
//
// The zero value counts nothing: Watch.SetSender connects it.
type Sender struct {
	// arrival, count and size are the newest queued events: events of one arrival, and
	// their bytes.
	arrival     *entry.Arrival
	count, size uint32
	// inSpans is set at the first event that arrived after the watch began. That event
	// and all that follow have spans.
	inSpans bool
	// partial is set while a part of the queued bytes is in a write. hasEarlier is set
	// while earlier is not empty.
	partial, hasEarlier bool

	// The transport's lock guards the fields from here to bytes: Sent is called with it,
	// and withLock takes it.

	// inFlightEvents and inFlightBytes are the part of events and bytes that write
	// number writeSeq carries. They are delivered once that write has returned.
	writeSeq, inFlightEvents, inFlightBytes uint32
	events, bytes                           uint64

	resource *resourceAccount
	buffer   *deliveryBuffer

	// An event that is sent whole touches none of the fields below.

	// earlier are queued events of other arrivals, and those that are partly sent, in
	// order.
	earlier []eventBatch
	watch   *Watch
}

// Prefetch loads the cache line that Queue and Sent need, without waiting for it. A
// caller that calls it first waits for that line and for its own lines at once.
func (s *Sender) Prefetch() { atomic.LoadUint32(&s.count) }

// eventBatch is events of one arrival that were encoded together.
type eventBatch struct {
	arrival *entry.Arrival
	count   uint32
	// timed reports whether filled and encoded are set. The first write that carries the
	// batch sets them.
	timed bool
	// size is the bytes of the events, unwritten how many of them are not delivered.
	size, unwritten uint32
	// filled and encoded are offsets from Watches.startedAt.
	filled, encoded time.Duration
}

// Queue notes events that were encoded for the next write, in order. Events without an
// arrival have no span. Bytes that are not known yet may be left out: the next Sent
// counts them.
func (s *Sender) Queue(arrival *entry.Arrival, count int, bytes int64) {
	if s.arrival != arrival {
		if s.count > 0 {
			s.pushBatch()
		}
		s.arrival = arrival
	}
	s.count += uint32(count)
	s.size += uint32(bytes)
}

// QueueBytes notes bytes without an event, such as a bookmark, after those that are queued.
// They are counted with the events before them, or else with the next ones.
func (s *Sender) QueueBytes(bytes int64) { s.size += uint32(bytes) }

// pushBatch moves the newest queued events to earlier.
func (s *Sender) pushBatch() {
	s.earlier = append(s.earlier, eventBatch{arrival: s.spanArrival(s.arrival), count: s.count, size: s.size, unwritten: s.size})
	s.count, s.size, s.hasEarlier = 0, 0, true
}

// spanArrival returns the arrival, or nil if its events have no span because they are
// older than the watch.
func (s *Sender) spanArrival(a *entry.Arrival) *entry.Arrival {
	if s.inSpans || a == nil {
		return a
	}
	if a.Entered.Sub(s.watch.set.startedAt) < s.watch.openedOffset {
		return nil
	}
	s.inSpans = true
	return a
}

// Sent notes that n of the queued bytes are in a write that has not begun. stall is nil
// if the client's windows are open. The caller holds the transport's lock.
func (s *Sender) Sent(w *Write, n int, stall *WindowStall) {
	l := w.writeEvents()
	bytes := uint64(n)
	if s.partial || stall != nil || bytes < s.queuedBytes() {
		if s.count > 0 || s.size > 0 {
			s.pushBatch()
		}
		s.partial = true
		p := partialWrite{sender: s, bytes: bytes}
		if stall != nil {
			p.stall = *stall
		}
		l.partials = append(l.partials, p)
		return
	}
	count, left := s.count, bytes
	if s.hasEarlier {
		for i := range s.earlier {
			b := &s.earlier[i]
			l.add(s, b.arrival, b.count, uint64(b.size))
			count += b.count
			left -= uint64(b.size)
		}
		s.dropWritten(len(s.earlier))
	}
	l.add(s, s.spanArrival(s.arrival), s.count, left)
	s.arrival, s.count, s.size = nil, 0, 0
	if n := uint32(w.Number); s.writeSeq != n {
		s.writeSeq, s.inFlightEvents, s.inFlightBytes = n, 0, 0
	}
	s.inFlightEvents += count
	s.inFlightBytes += uint32(bytes)
	s.events += uint64(count)
	s.bytes += bytes
}

// queuedBytes returns the bytes that are queued and not sent.
func (s *Sender) queuedBytes() uint64 {
	sum := uint64(s.size)
	if s.hasEarlier {
		for i := range s.earlier {
			sum += uint64(s.earlier[i].size)
		}
	}
	return sum
}

// consume notes that a partial write has delivered bytes of earlier. It returns how
// many batches at the front of earlier are delivered completely.
func (s *Sender) consume(bytes uint64, filled, encoded time.Duration) (done int) {
	n := uint32(bytes)
	for i := range s.earlier {
		b := &s.earlier[i]
		if !b.timed {
			b.filled, b.encoded, b.timed = filled, encoded, true
		}
		part := min(n, b.unwritten)
		n, b.unwritten = n-part, b.unwritten-part
		if b.unwritten == 0 && done == i {
			done++
		}
	}
	return done
}

// keptBatches is the capacity of earlier that an idle sender keeps.
const keptBatches = 2

// dropWritten removes the first batches of earlier.
func (s *Sender) dropWritten(done int) {
	n := copy(s.earlier, s.earlier[done:])
	clear(s.earlier[n:])
	if s.earlier = s.earlier[:n]; n > 0 {
		return
	}
	s.partial, s.hasEarlier = false, false
	if cap(s.earlier) > keptBatches {
		s.earlier = nil
	}
}

// withLock calls use with the transport's lock held. returned is how many writes to the
// connection have returned.
func (s *Sender) withLock(use func(returned uint64)) {
	s.watch.Transport.Locked(use)
}

// delivered returns what was written by writes that have returned.
func (s *Sender) delivered() (events, bytes uint64) {
	s.withLock(func(returned uint64) {
		events, bytes = s.events, s.bytes
		if int32(s.writeSeq-uint32(returned)) > 0 {
			events, bytes = events-uint64(s.inFlightEvents), bytes-uint64(s.inFlightBytes)
		}
	})
	return events, bytes
}
