package h2

import (
	"time"

	"github.com/millrace/millrace/internal/pull"
)

// stallClock is the time since a stream's client let it send everything.
type stallClock struct {
	// What is told counts the times before from, which is zero while the windows are
	// open.
	pull.WindowStall
	runningSince time.Time
}

// beginStallLocked notes that the stream could send and may not.
func (s *stream) beginStallLocked() {
	if s.stall == nil {
		now := time.Now()
		s.stall = &stallClock{pull.WindowStall{Since: now}, now}
	} else if s.stall.runningSince.IsZero() {
		s.stall.runningSince = time.Now()
	}
}

// pause notes that it may.
func (h *stallClock) pause() {
	if !h.runningSince.IsZero() {
		h.For += time.Since(h.runningSince)
		h.runningSince = time.Time{}
	}
}

// noteFillStartLocked notes when the buffer was begun that a receiver's bytes come in.
func (c *conn) noteFillStartLocked(s *stream) {
	if w := c.mu.turn.write; s.receiver != nil && w.Filled.IsZero() {
		w.Filled = c.mu.turn.worker.Now()
	}
}

// noteSentLocked notes bytes of a source in the buffer.
func (c *conn) noteSentLocked(s *stream, n int) {
	if s.receiver == nil || n == 0 {
		return
	}
	t := &c.mu.turn
	if t.receiver == nil {
		c.noteFillStartLocked(s)
		t.receiver, t.write.Number = s.receiver, t.clock.NextNumber()
	}
	var stall *pull.WindowStall
	if s.stall != nil {
		stall = &s.stall.WindowStall
	}
	s.receiver.Sent(t.write, n, stall)
}

// writeBatchLocked writes a buffer, and says so to one of the receivers of what is in it. It
// takes the time three times for a buffer, and not at all for one without.
func (c *conn) writeBatchLocked(bytes []byte) {
	t := &c.mu.turn
	receiver := t.receiver
	t.receiver = nil
	if receiver != nil {
		t.clock.Begin(t.write)
	}
	if c.deliverUnlocked(receiver, bytes) && receiver != nil {
		t.clock.Complete(t.write)
	}
}

// deliverUnlocked writes a buffer without the lock, which is locked before and after, also
// when it panics. It returns false if the connection takes no more.
func (c *conn) deliverUnlocked(receiver pull.Receiver, bytes []byte) (written bool) {
	t := &c.mu.turn
	w, worker := t.write, t.worker
	c.mu.Unlock()
	defer c.mu.Lock()
	written = c.send(worker, bytes)
	if receiver == nil {
		return written
	}
	if t.clock.End(w, worker); written {
		receiver.Written(w)
	}
	return written
}

// Locked implements pull.Puller.
func (r *response) Locked(use func(returned uint64)) {
	c := r.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	use(c.mu.turn.clock.Returned())
}

// Waits implements pull.Puller.
func (r *response) Waits() (window, write time.Time) {
	s, c := r.stream, r.stream.conn
	write = c.mu.turn.clock.WritingSince()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.stall != nil && s.source != nil {
		window = s.stall.runningSince
	}
	return window, write
}
