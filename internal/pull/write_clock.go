package pull

import (
	"sync/atomic"
	"time"
)

// clockOrigin is what times are told from.
var clockOrigin = time.Now()

// Now is the time by one look at the clock; time.Now takes two.
func Now() time.Time { return clockOrigin.Add(time.Since(clockOrigin)) }

// WriteClock keeps the times of a connection's writes that Receivers are told of. The
// connection's lock guards it, but for Writing.
type WriteClock struct {
	// returned is how many have.
	returned uint64
	// busySince is since when the connection has had something to write without a pause, and
	// writing how long it was writing in that time.
	busySince   time.Time
	busyWriting time.Duration
	// writeStart is when the write began that is going on, in nanoseconds since made; 0 for
	// none.
	writeStart atomic.Int64
}

// busyMemory is how far back a connection's business is remembered in full.
const busyMemory = 2 * time.Second

// NextNumber is that of the next write.
func (c *WriteClock) NextNumber() uint64 { return c.returned + 1 }

// Returned is how many writes have.
func (c *WriteClock) Returned() uint64 { return c.returned }

// Begin says that a write begins.
func (c *WriteClock) Begin(w *Write) {
	w.Began = Now()
	if c.busySince.IsZero() {
		c.busySince = w.Filled
	}
	w.Busy, w.Writing = c.busySince, c.busyWriting
	c.writeStart.Store(int64(w.Began.Sub(clockOrigin)))
}

// End says that it has returned to a worker, or to another goroutine. It needs no
// lock.
func (c *WriteClock) End(w *Write, by *Worker) {
	w.Ended = Now()
	if c.writeStart.Store(0); by != nil {
		by.lastWriteEnd = w.Ended
	}
}

// Complete counts a write that has ended well. What is long ago counts half, so that a
// connection that never rests tells how it has been lately.
func (c *WriteClock) Complete(w *Write) {
	c.returned++
	c.busyWriting += w.Ended.Sub(w.Began)
	if past := w.Ended.Sub(c.busySince); past > busyMemory {
		c.busySince, c.busyWriting = c.busySince.Add(past/2), c.busyWriting/2
	}
}

// SetIdle says that there is nothing to write.
func (c *WriteClock) SetIdle() { c.busySince, c.busyWriting = time.Time{}, 0 }

// WritingSince is since when a write has been going on, zero if none is. Any goroutine may
// call it.
func (c *WriteClock) WritingSince() (since time.Time) {
	if at := c.writeStart.Load(); at != 0 {
		since = clockOrigin.Add(time.Duration(at))
	}
	return since
}
