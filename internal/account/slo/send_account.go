package slo

import (
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/wire/entry"
)

// SendAccount is the account of the events that one watch sends after its initial events.
// One goroutine at a time may call Queue, Placed and Write.Written.
//
//	Queue ──► queued ──Placed, all of it────► bufferEvents ──Written──► delivered
//	                 ──Placed, a part of it─► partialWrite ──Written──► delivered
//
// An event may go to thousands of watches, whose accounts are then not in the processor's
// caches. Cache misses are most of the cost of measuring. So an event that is sent whole touches
// only the writeEvents and the first fields of a SendAccount, which are one cache line. The
// caller keeps the SendAccount beside state that it reads for each event. The
// accounts of the resource, the client and the subscription are updated later (deliveryBatch,
// deliveryBuffer).
//
// Watch.SetSendAccount must connect a SendAccount before its methods are called.
type SendAccount struct {
	// arrival is the arrival of the newest queued events. newestEvents and newestBytes are the
	// number and the bytes of those events alone.
	arrival                   *entry.Arrival
	newestEvents, newestBytes uint32
	// inSpans is set at the first event that arrived after the watch began. That event
	// and all that follow have spans.
	inSpans bool
	// partial is set at a partialWrite, until all events of earlier are delivered. hasEarlier
	// is set while earlier is not empty.
	partial, hasEarlier bool

	// placedEvents and placedBytes count what was placed in writes since SetSendAccount.
	// Events and bytes of a partialWrite count once they are delivered. The write with number
	// inFlightWrite carries inFlightEvents and inFlightBytes of the sums, which are delivered
	// once the write has returned. These three fields wrap around.
	//
	// Reports read the five fields from other goroutines, so the transport's lock guards them:
	// Placed is called with it, and withLock takes it.
	inFlightWrite, inFlightEvents, inFlightBytes uint32
	placedEvents, placedBytes                    uint64

	// SetSendAccount sets resource and buffer, which do not change.
	resource *resourceAccount
	buffer   *deliveryBuffer

	// An event that is sent whole touches none of the fields below.

	// earlier has, in order, the queued events of earlier arrivals and the events that are
	// partly sent.
	earlier []eventBatch
	watch   *Watch
}

// TouchCacheLine starts to load the cache line that Queue and Placed need. The processor loads it
// while the caller goes on to its own cache misses.
func (s *SendAccount) TouchCacheLine() { atomic.LoadUint32(&s.newestEvents) }

// eventBatch is events of one arrival that follow each other in the queue.
type eventBatch struct {
	// arrival is nil if the events have no span.
	arrival *entry.Arrival
	count   uint32
	// timed reports whether fillBegan and encoded are set. The first partialWrite after the
	// batch was queued sets them.
	timed bool
	// size is the bytes of the events, unwritten how many of them are not delivered.
	size, unwritten uint32
	// fillBegan and encoded are offsets from Watches.startedAt.
	fillBegan, encoded time.Duration
}

// Queue records events that were encoded for the next write, in order. Events without an
// arrival have no span. Bytes that are not known yet may be left out: the next Placed
// counts them.
func (s *SendAccount) Queue(arrival *entry.Arrival, count int, bytes int64) {
	if s.arrival != arrival {
		if s.newestEvents > 0 {
			s.pushBatch()
		}
		s.arrival = arrival
	}
	s.newestEvents += uint32(count)
	s.newestBytes += uint32(bytes)
}

// QueueBytes records bytes without an event, such as a bookmark, at the end of the queue. They
// count as bytes of the newest queued events, or of the next ones if those are in earlier.
func (s *SendAccount) QueueBytes(bytes int64) { s.newestBytes += uint32(bytes) }

// pushBatch moves the newest queued events to earlier.
func (s *SendAccount) pushBatch() {
	s.earlier = append(s.earlier, eventBatch{arrival: s.spanArrival(s.arrival), count: s.newestEvents, size: s.newestBytes, unwritten: s.newestBytes})
	s.newestEvents, s.newestBytes, s.hasEarlier = 0, 0, true
}

// spanArrival returns the arrival, or nil if its events have no span because they are
// older than the watch.
func (s *SendAccount) spanArrival(a *entry.Arrival) *entry.Arrival {
	if s.inSpans || a == nil {
		return a
	}
	if a.Entered.Sub(s.watch.set.startedAt) < s.watch.openedOffset {
		return nil
	}
	s.inSpans = true
	return a
}

// Placed records that n of the queued bytes were placed in a write that has not begun. stall is
// nil if the client's flow-control windows have not stalled since they last let everything through.
// The caller holds the transport's lock.
func (s *SendAccount) Placed(w *Write, n int, stall *WindowStall) {
	events := w.localEvents()
	bytes := uint64(n)
	if s.partial || stall != nil || bytes < s.queuedBytes() {
		if s.newestEvents > 0 || s.newestBytes > 0 {
			s.pushBatch()
		}
		s.partial = true
		p := partialWrite{account: s, bytes: bytes}
		if stall != nil {
			p.stall = *stall
		}
		events.partials = append(events.partials, p)
		return
	}
	count, newestBytes := s.newestEvents, bytes
	if s.hasEarlier {
		for i := range s.earlier {
			b := &s.earlier[i]
			events.add(s, b.arrival, b.count, uint64(b.size))
			count += b.count
			newestBytes -= uint64(b.size)
		}
		s.dropFront(len(s.earlier))
	}
	events.add(s, s.spanArrival(s.arrival), s.newestEvents, newestBytes)
	s.arrival, s.newestEvents, s.newestBytes = nil, 0, 0
	if n := uint32(w.Number); s.inFlightWrite != n {
		s.inFlightWrite, s.inFlightEvents, s.inFlightBytes = n, 0, 0
	}
	s.inFlightEvents += count
	s.inFlightBytes += uint32(bytes)
	s.placedEvents += uint64(count)
	s.placedBytes += bytes
}

// queuedBytes returns the bytes that are queued and not placed in a write.
func (s *SendAccount) queuedBytes() uint64 {
	sum := uint64(s.newestBytes)
	if s.hasEarlier {
		for i := range s.earlier {
			sum += uint64(s.earlier[i].size)
		}
	}
	return sum
}

// consume records that a partialWrite has delivered bytes of earlier. It returns how many
// batches at the front of earlier are delivered completely. fillBegan and encoded are times of
// the write.
func (s *SendAccount) consume(bytes uint64, fillBegan, encoded time.Duration) (done int) {
	n := uint32(bytes)
	for i := range s.earlier {
		b := &s.earlier[i]
		if !b.timed {
			b.fillBegan, b.encoded, b.timed = fillBegan, encoded, true
		}
		part := min(n, b.unwritten)
		n, b.unwritten = n-part, b.unwritten-part
		if b.unwritten == 0 && done == i {
			done++
		}
	}
	return done
}

// keptBatches is the capacity of earlier that an idle account keeps.
const keptBatches = 2

// dropFront removes the first done batches of earlier.
func (s *SendAccount) dropFront(done int) {
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
func (s *SendAccount) withLock(use func(returned uint64)) {
	s.watch.Transport.WithLock(use)
}

// delivered returns what was written by writes that have returned.
func (s *SendAccount) delivered() (events, bytes uint64) {
	s.withLock(func(returned uint64) {
		events, bytes = s.placedEvents, s.placedBytes
		// The difference of numbers that wrap around is right as a signed number.
		if int32(s.inFlightWrite-uint32(returned)) > 0 {
			events, bytes = events-uint64(s.inFlightEvents), bytes-uint64(s.inFlightBytes)
		}
	})
	return events, bytes
}
