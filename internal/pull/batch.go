package pull

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// recordSize is the most that a TLS record holds, in bytes.
	recordSize = 16 << 10
	// BatchSize is how much is written at once, in bytes.
	BatchSize = 4 * recordSize
)

// Batch is a buffer with what there is to tell of its write. A connection has one while
// it writes.
type Batch struct {
	Bytes []byte
	Write Write
}

var batches = sync.Pool{New: func() any { return &Batch{Bytes: make([]byte, 0, BatchSize)} }}

// NewBatch returns an empty one.
func NewBatch() *Batch { return batches.Get().(*Batch) }

// Release gives it back.
func (b *Batch) Release() {
	if cap(b.Bytes) <= 2*BatchSize {
		b.Bytes, b.Write = b.Bytes[:0], Write{}
		batches.Put(b)
	}
}

// made is what times are told from.
var made = time.Now()

// Moment is the time by one look at the clock; time.Now takes two.
func Moment() time.Time { return made.Add(time.Since(made)) }

// WriteClock keeps the times of a connection's writes that Receivers are told of. The
// connection's lock guards it, but for Writing.
type WriteClock struct {
	// returned is how many have.
	returned uint64
	// busy is since when the connection has had something to write without a pause, and
	// writing how long it was writing in that time.
	busy    time.Time
	writing time.Duration
	// began is when the write began that is going on, in nanoseconds since made; 0 for
	// none.
	began atomic.Int64
}

// memory is how far back a connection's business is remembered in full.
const memory = 2 * time.Second

// Number is that of the next write.
func (c *WriteClock) Number() uint64 { return c.returned + 1 }

// Returned is how many writes have.
func (c *WriteClock) Returned() uint64 { return c.returned }

// Begin says that a write begins.
func (c *WriteClock) Begin(w *Write) {
	w.Began = Moment()
	if c.busy.IsZero() {
		c.busy = w.Filled
	}
	w.Busy, w.Writing = c.busy, c.writing
	c.began.Store(int64(w.Began.Sub(made)))
}

// Ended says that it has returned to a worker, or to another goroutine. It needs no
// lock.
func (c *WriteClock) Ended(w *Write, by *Worker) {
	w.Ended = Moment()
	if c.began.Store(0); by != nil {
		by.ended = w.Ended
	}
}

// Add counts a write that has ended well. What is long ago counts half, so that a
// connection that never rests tells how it has been lately.
func (c *WriteClock) Add(w *Write) {
	c.returned++
	c.writing += w.Ended.Sub(w.Began)
	if past := w.Ended.Sub(c.busy); past > memory {
		c.busy, c.writing = c.busy.Add(past/2), c.writing/2
	}
}

// Idle says that there is nothing to write.
func (c *WriteClock) Idle() { c.busy, c.writing = time.Time{}, 0 }

// Writing is since when a write has been going on, zero if none is. Any goroutine may
// call it.
func (c *WriteClock) Writing() (since time.Time) {
	if at := c.began.Load(); at != 0 {
		since = made.Add(time.Duration(at))
	}
	return since
}
