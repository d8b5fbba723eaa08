package slo

import (
	"sync/atomic"
	"time"
)

// Sender is what the sender of a watch knows of what it sends. Give, Taken and
// Write.Written are called by one goroutine at a time.
//
// A thousand watches that are sent an event find nothing of theirs in the processor's
// caches, and waiting for that is most of what measuring costs. So an event touches
// nothing of a watch's account but the first fields of its Sender, which the sender
// keeps beside what it needs for each event in any case.
//
//	Give ──► not taken yet ──Taken: the whole──► in the entries of the write ─► Written
//	                       ──Taken: a part─────► in the pieces of the write ──► Written
type Sender struct {
	// last, count and size are what was given last and not taken: events of one
	// arrival, and their bytes.
	last        *Arrival
	count, size uint32
	// old says that an event was given that came after the watch began.
	old bool
	// partly says that pieces were taken, and not all that was given before; several
	// that something was given before last.
	partly, several bool
	// flying of the events, and flyingBytes, are in the write that is the number-th of
	// its connection, unless that has returned. The locks that Taken is called with
	// guard them and what follows.
	number, flying, flyingBytes uint32
	events, bytes               uint64
	resource                    *resourceAccount
	peers                       *peers

	// What follows an event need not touch.

	// before is what was given before last and not written, in order.
	before []given
	watch  *Watch
}

// Prefetch asks for the memory that Give and Taken need, and does not wait for it: who
// calls it first of all waits for that and for his own at once.
func (x *Sender) Prefetch() { atomic.LoadUint32(&x.count) }

// given are events of one arrival that were encoded at once.
type given struct {
	arrival *Arrival
	count   uint32
	// stamped says that taken and encoded are known: from the first write behind it.
	stamped bool
	// size is how many bytes they have, left how many were not written.
	size, left uint32
	// taken and encoded are since the set's beginning.
	taken, encoded time.Duration
}

// Queue notes that events were taken and encoded, some bytes for the next write.
// They are in order. Without an arrival they have no span. Bytes that are not known
// yet are those of the next Taken.
func (x *Sender) Queue(arrival *Arrival, count int, bytes int64) {
	if x.last != arrival {
		if x.count > 0 {
			x.putAside()
		}
		x.last = arrival
	}
	x.count += uint32(count)
	x.size += uint32(bytes)
}

// putAside makes room for what is given next.
func (x *Sender) putAside() {
	x.before = append(x.before, given{arrival: x.span(x.last), count: x.count, size: x.size, left: x.size})
	x.count, x.size, x.several = 0, 0, true
}

// span is the arrival of events that have a span: those that came after the watch
// began.
func (x *Sender) span(a *Arrival) *Arrival {
	if x.old || a == nil {
		return a
	}
	if a.Entered.Sub(x.watch.set.began) < x.watch.began {
		return nil
	}
	x.old = true // and so are all that follow
	return a
}

// Sent notes that bytes of what was given are in a write that is to come.
func (x *Sender) Sent(w *Write, n int, shut *WindowStall) {
	l := w.ledger()
	bytes := uint64(n)
	if x.partly || shut != nil || bytes < x.owed() {
		if x.count > 0 {
			x.putAside()
		}
		x.partly = true
		p := piece{sender: x, bytes: bytes}
		if shut != nil {
			p.shut = *shut
		}
		l.pieces = append(l.pieces, p)
		return
	}
	count, left := x.count, bytes
	if x.several {
		for i := range x.before {
			g := &x.before[i]
			l.add(x, g.arrival, g.count, uint64(g.size))
			count += g.count
			left -= uint64(g.size)
		}
		x.forget(len(x.before))
	}
	l.add(x, x.span(x.last), x.count, left)
	x.last, x.count, x.size = nil, 0, 0
	if n := uint32(w.Number); x.number != n {
		x.number, x.flying, x.flyingBytes = n, 0, 0
	}
	x.flying += count
	x.flyingBytes += uint32(bytes)
	x.events += uint64(count)
	x.bytes += bytes
}

// owed is how many bytes were given and not taken.
func (x *Sender) owed() uint64 {
	sum := uint64(x.size)
	if x.several {
		for i := range x.before {
			sum += uint64(x.before[i].size)
		}
	}
	return sum
}

// wrote notes a piece that was written, and returns how many of the events before are
// written with it.
func (x *Sender) wrote(bytes uint64, taken, encoded time.Duration) (done int) {
	n := uint32(bytes)
	for i := range x.before {
		g := &x.before[i]
		if !g.stamped {
			g.taken, g.encoded, g.stamped = taken, encoded, true
		}
		part := min(n, g.left)
		n, g.left = n-part, g.left-part
		if g.left == 0 && done == i {
			done++
		}
	}
	return done
}

// keptGiven is how much room a sender keeps for what comes in one buffer.
const keptGiven = 2

// forget lets go of what was written of before.
func (x *Sender) forget(done int) {
	n := copy(x.before, x.before[done:])
	clear(x.before[n:])
	if x.before = x.before[:n]; n > 0 {
		return
	}
	x.partly, x.several = false, false
	if cap(x.before) > keptGiven {
		x.before = nil
	}
}

// locked calls use between two calls of Taken, with how many writes have returned to
// the connection.
func (x *Sender) locked(use func(returned uint64)) {
	x.watch.Transport.Locked(use)
}

// sent is what was written.
func (x *Sender) sent() (events, bytes uint64) {
	x.locked(func(returned uint64) {
		events, bytes = x.events, x.bytes
		if int32(x.number-uint32(returned)) > 0 {
			events, bytes = events-uint64(x.flying), bytes-uint64(x.flyingBytes)
		}
	})
	return events, bytes
}
