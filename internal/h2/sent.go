package h2

import (
	"time"

	"github.com/millrace/millrace/internal/pull"
)

// hold is the time since a stream's client let it send everything.
type hold struct {
	// What is told counts the times before from, which is zero while the windows are
	// open.
	pull.WindowStall
	from time.Time
}

// shutLocked notes that the stream could send and may not.
func (s *stream) shutLocked() {
	if s.hold == nil {
		now := time.Now()
		s.hold = &hold{pull.WindowStall{Since: now}, now}
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

// fillsLocked notes when the buffer was begun that a receiver's bytes come in.
func (c *conn) fillsLocked(s *stream) {
	if w := c.mu.turn.write; s.receiver != nil && w.Filled.IsZero() {
		w.Filled = c.mu.turn.worker.Now()
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
		t.told, t.write.Number = s.receiver, t.carrier.NextNumber()
	}
	var shut *pull.WindowStall
	if s.hold != nil {
		shut = &s.hold.WindowStall
	}
	s.receiver.Sent(t.write, n, shut)
}

// carryLocked writes a buffer, and says so to one of the receivers of what is in it. It
// takes the time three times for a buffer, and not at all for one without.
func (c *conn) carryLocked(bytes []byte) {
	t := &c.mu.turn
	told := t.told
	t.told = nil
	if told != nil {
		t.carrier.Begin(t.write)
	}
	if c.deliverUnlocked(told, bytes) && told != nil {
		t.carrier.Complete(t.write)
	}
}

// deliverUnlocked writes a buffer without the lock, which is locked before and after, also
// when it panics. It returns false if the connection takes no more.
func (c *conn) deliverUnlocked(told pull.Receiver, bytes []byte) (written bool) {
	t := &c.mu.turn
	w, worker := t.write, t.worker
	c.mu.Unlock()
	defer c.mu.Lock()
	written = c.send(worker, bytes)
	if told == nil {
		return written
	}
	if t.carrier.End(w, worker); written {
		told.Written(w)
	}
	return written
}

// Locked implements pull.Puller.
func (r *response) Locked(use func(returned uint64)) {
	c := r.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	use(c.mu.turn.carrier.Returned())
}

// Waits implements pull.Puller.
func (r *response) Waits() (window, write time.Time) {
	s, c := r.stream, r.stream.conn
	write = c.mu.turn.carrier.WritingSince()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.hold != nil && s.source != nil {
		window = s.hold.from
	}
	return window, write
}
