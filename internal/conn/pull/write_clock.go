package pull

import (
	"sync/atomic"
	"time"
)

// clockOrigin is the moment that monotonic times are measured from.
var clockOrigin = time.Now()

// Now returns the time with one reading of a clock in place of two: only the monotonic
// clock is read.
func Now() time.Time { return clockOrigin.Add(time.Since(clockOrigin)) }

// WriteClock measures the writes of one connection for its Receivers. The zero value is ready.
// The lock of the connection in package h1 or h2 guards it, except where a method says
// otherwise.
type WriteClock struct {
	// returned is the number of writes that Complete has counted.
	returned uint64
	// The connection has had something to write since busySince without a pause. It spent
	// busyWriting of that time in writes. busySince is zero while there is nothing to
	// write.
	busySince   time.Time
	busyWriting time.Duration
	// longest is how long the longest write of that time took.
	longest time.Duration
	// longestEnded is when that write ended.
	longestEnded time.Time
	// writeStart is the start of the write in progress, in nanoseconds since clockOrigin.
	// It is 0 if there is none.
	writeStart atomic.Int64
}

// busyMemory is how far back busy and writing times count in full; see Complete.
const busyMemory = 2 * time.Second

// NextNumber returns the number of the next write.
func (c *WriteClock) NextNumber() uint64 { return c.returned + 1 }

// ReturnedWrites returns the number of writes that Complete has counted.
func (c *WriteClock) ReturnedWrites() uint64 { return c.returned }

// Begin records the start of a write, and sets Began, BusySince and Writing of w.
func (c *WriteClock) Begin(w *Write) {
	w.Began = Now()
	if c.busySince.IsZero() {
		c.busySince = w.FillBegan
	}
	w.BusySince, w.Writing = c.busySince, c.busyWriting
	c.writeStart.Store(int64(w.Began.Sub(clockOrigin)))
}

// End records that a write has returned. worker is the goroutine that wrote. It is nil if
// a handler wrote. End needs no lock: only the goroutine that writes calls it.
func (c *WriteClock) End(w *Write, worker *Worker) {
	w.Ended = Now()
	if c.writeStart.Store(0); worker != nil {
		worker.lastWriteEnd = w.Ended
	}
}

// Complete counts a write that has succeeded. Once the busy period is longer than busyMemory,
// the past is halved. So a connection that never pauses reports how it fared recently. A long
// write is remembered for longer: bytes that came during the write are sent by later writes,
// and have waited for it.
func (c *WriteClock) Complete(w *Write) {
	c.returned++
	took := w.Ended.Sub(w.Began)
	c.busyWriting += took
	if took > c.longest {
		c.longest, c.longestEnded = took, w.Ended
	}
	if past := w.Ended.Sub(c.busySince); past > max(busyMemory, 2*c.longest) {
		c.busySince, c.busyWriting = c.busySince.Add(past/2), c.busyWriting/2
		if !c.longestEnded.After(c.busySince) {
			c.longest = 0
		}
	}
}

// SetIdle records that there is nothing to write.
func (c *WriteClock) SetIdle() { c.busySince, c.busyWriting, c.longest = time.Time{}, 0, 0 }

// WritingSince returns the start of the write in progress. It returns zero if there is
// none. It may be called from any goroutine, without the lock.
func (c *WriteClock) WritingSince() (since time.Time) {
	if at := c.writeStart.Load(); at != 0 {
		since = clockOrigin.Add(time.Duration(at))
	}
	return since
}
