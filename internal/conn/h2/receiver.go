package h2

import (
	"time"

	"github.com/millrace/millrace/internal/conn/pull"
)

// stallClock measures how long the windows kept a stream from sending since its client
// last let everything through.
type stallClock struct {
	// WindowStall.For does not include the current stall, which began at runningSince.
	// That is zero while the windows are open.
	pull.WindowStall
	runningSince time.Time
}

// beginStallLocked records that the stream has bytes and the windows do not let it send
// them.
func (s *stream) beginStallLocked() {
	switch {
	case s.stall == nil:
		now := time.Now()
		s.stall = &stallClock{pull.WindowStall{Since: now}, now}
	case s.stall.runningSince.IsZero():
		s.stall.runningSince = time.Now()
	default:
		return
	}
	s.conn.mu.stalled++
}

// pauseStallLocked records that the windows are open, or that the stream has ended.
func (s *stream) pauseStallLocked() {
	if c := s.stall; c != nil && !c.runningSince.IsZero() {
		c.For += time.Since(c.runningSince)
		c.runningSince = time.Time{}
		s.conn.mu.stalled--
	}
}

// noteFillStartLocked records when the buffer was begun, at the first receiver whose
// bytes enter it.
func (c *conn) noteFillStartLocked(s *stream) {
	if w := c.mu.turn.write; s.receiver != nil && w.FillBegan.IsZero() {
		w.FillBegan = c.mu.turn.worker.Now()
	}
}

// notePlacedLocked tells the stream's receiver that n bytes of it are in the buffer.
func (c *conn) notePlacedLocked(s *stream, n int) {
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
	s.receiver.Placed(t.write, n, stall)
}

// writeBatchLocked writes a buffer and tells one of its receivers. A buffer takes three clock
// readings at most, and none without receivers.
func (c *conn) writeBatchLocked(bytes []byte) {
	t := &c.mu.turn
	receiver := t.receiver
	t.receiver = nil
	if receiver != nil {
		t.clock.Begin(t.write)
	}
	if c.unlockAndDeliver(receiver, bytes) && receiver != nil {
		t.clock.Complete(t.write)
	}
}

// unlockAndDeliver releases the lock, writes a buffer, and takes the lock again, also when
// it panics. It returns false if the write failed.
func (c *conn) unlockAndDeliver(receiver pull.Receiver, bytes []byte) (written bool) {
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

// WithLock implements pull.Puller.
func (r *response) WithLock(use func(returned uint64)) {
	c := r.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	use(c.mu.turn.clock.ReturnedWrites())
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
