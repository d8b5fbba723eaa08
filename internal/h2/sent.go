package h2

import (
	"sync/atomic"
	"time"
)

// batch is a buffer with what there is to tell of its write.
type batch struct {
	bytes []byte
	write Write
}

// busy is the time since a connection last had nothing to write.
type busy struct {
	since   time.Time
	writing time.Duration
	// write is when the write began that is going on, in nanoseconds since the server
	// was made; 0 for none.
	write atomic.Int64
}

// memory is how far back a connection's business is remembered in full.
const memory = 2 * time.Second

// wrote adds a write. What is long ago counts half, so that a connection that never
// rests tells how it has been lately.
func (b *busy) wrote(began, ended time.Time) {
	b.writing += ended.Sub(began)
	if past := ended.Sub(b.since); past > memory {
		b.since, b.writing = b.since.Add(past/2), b.writing/2
	}
}

// rest ends the time.
func (b *busy) rest() { b.since, b.writing = time.Time{}, 0 }

// hold is the time since a stream's client let it send everything.
type hold struct {
	// What is told counts the times before from, which is zero while the windows are
	// open.
	Shut
	from time.Time
}

// shutLocked notes that the stream could send and may not.
func (s *stream) shutLocked() {
	if s.hold == nil {
		now := time.Now()
		s.hold = &hold{Shut{Since: now}, now}
	} else if s.hold.from.IsZero() {
		s.hold.from = time.Now()
	}
}

// open notes that it may.
func (h *hold) open() {
	if !h.from.IsZero() {
		h.For += time.Since(h.from)
		h.from = time.Time{}
	}
}

// moment is the time by one look at the clock; time.Now takes two.
func (s *Server) moment() time.Time { return s.made.Add(time.Since(s.made)) }

// fillsLocked notes when the buffer was begun that a receiver's bytes come in.
func (c *conn) fillsLocked(s *stream) {
	if w := c.mu.turn.write; s.receiver != nil && w.Filled.IsZero() {
		w.Filled = c.server.moment()
	}
}

// noteLocked notes bytes of a source in the buffer.
func (c *conn) noteLocked(s *stream, n int) {
	if s.receiver == nil || n == 0 {
		return
	}
	t := &c.mu.turn
	if t.told == nil {
		c.fillsLocked(s)
		t.told, t.write.Number = s.receiver, t.returned+1
	}
	var shut *Shut
	if s.hold != nil {
		shut = &s.hold.Shut
	}
	s.receiver.Taken(t.write, n, shut)
}

// carryLocked writes a buffer, without the lock, and says so to one of the receivers
// of what is in it. It takes the time three times for a buffer, and not at all for one
// without.
func (c *conn) carryLocked(bytes []byte) {
	t := &c.mu.turn
	told, w, worker := t.told, t.write, t.worker
	if told == nil {
		c.mu.Unlock()
		c.send(worker, bytes)
		c.mu.Lock()
		return
	}
	t.told = nil
	w.Began = c.server.moment()
	if t.busy.since.IsZero() {
		t.busy.since = w.Filled
	}
	w.Busy, w.Writing = t.busy.since, t.busy.writing
	t.busy.write.Store(int64(w.Began.Sub(c.server.made)))
	c.mu.Unlock()
	written := c.send(worker, bytes)
	w.Ended = c.server.moment()
	t.busy.write.Store(0)
	if written {
		told.Written(w)
	}
	c.mu.Lock()
	if written {
		t.returned++
	}
	t.busy.wrote(w.Began, w.Ended)
}

// Locked implements Puller.
func (r *response) Locked(use func(returned uint64)) {
	c := r.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	use(c.mu.turn.returned)
}

// Waits implements Puller.
func (r *response) Waits() (window, write time.Time) {
	s, c := r.stream, r.stream.conn
	if at := c.mu.turn.busy.write.Load(); at != 0 {
		write = c.server.made.Add(time.Duration(at))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.hold != nil && s.source != nil {
		window = s.hold.from
	}
	return window, write
}
