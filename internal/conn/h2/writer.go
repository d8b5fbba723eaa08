package h2

import (
	"slices"
	"time"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/conn/pull"
)

const (
	// maxPayload is the size of a DATA frame's payload which, with the frame header,
	// fills a TLS record.
	maxPayload = minFrameSize - frameHeader
	// frameHeader is the size of a frame header.
	frameHeader = 9
	// maxTurns bounds the streams that are visited for one buffer.
	maxTurns = 1024
)

// kick queues the connection for a worker, unless it is queued already. It never blocks.
func (c *conn) kick() {
	if !c.queued.Swap(true) {
		pull.Do(c)
	}
}

// kickReadyLocked is kick if a stream may send something. Most window updates arrive
// while no stream has anything to send.
func (c *conn) kickReadyLocked() {
	if c.readyLocked() {
		c.kick()
	}
}

// Write implements pull.Task. It writes one buffer.
func (c *conn) Write(w *pull.Worker) {
	c.queued.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.mu.turn
	switch {
	case c.mu.phase == closed:
		return
	case t.taken:
		t.workerCame = true
		return
	}
	c.collectLocked()
	t.worker = w
	c.writeLocked()
	t.worker = nil
	c.endTurnLocked()
}

// endTurnLocked ends a turn. If more is to be sent, the connection is queued after others.
// This also holds after a handler's turn, and where a source has promised bytes and
// produced none. A connection with a stream that waits for its flow-control window is not
// idle: its bytes may have waited for a write before.
func (c *conn) endTurnLocked() {
	t := &c.mu.turn
	if t.workerCame || c.mu.control.Len() > 0 || c.readyLocked() {
		t.workerCame = false
		c.kick()
		return
	}
	if c.mu.stalled == 0 {
		t.clock.SetIdle()
	}
}

// readyLocked reports whether a stream may send something now.
func (c *conn) readyLocked() bool {
	q := &c.mu.queues
	return c.mu.phase < failed && (q.ready.length > 0 || q.starved.length > 0 && c.mu.out > 0)
}

// writeOwnLocked writes the end of a response in its handler's goroutine, if the
// connection has nothing else to send. That saves waking a worker.
func (c *conn) writeOwnLocked(s *stream) {
	t, q := &c.mu.turn, &c.mu.queues
	if t.taken || s.queue == nil || q.ready.length+q.starved.length > 1 {
		c.kick()
		return
	}
	c.writeLocked()
	c.endTurnLocked()
}

// writeLocked fills one buffer and writes it. The lock is released during the write. The
// caller ends the turn.
func (c *conn) writeLocked() {
	t := &c.mu.turn
	t.taken = true
	b := pull.NewBatch()
	t.batch, t.write = b.Bytes, &b.Write
	c.fillLocked()
	b.Bytes, t.batch = t.batch, nil
	if len(b.Bytes) > 0 {
		c.writeBatchLocked(b.Bytes)
	}
	t.write = nil
	b.Release()
	t.taken = false
}

// send writes a batch. It returns false, and closes the connection, if that fails.
func (c *conn) send(w *pull.Worker, batch []byte) bool {
	if t := c.server.cfg.WriteTimeout; t > 0 {
		_ = c.nc.SetWriteDeadline(time.Now().Add(t))
	}
	if _, err := w.Write(c.nc, batch); err != nil {
		c.close()
		return false
	}
	return true
}

// fillLocked fills the buffer: with control frames, then with one frame of each stream in
// turn.
func (c *conn) fillLocked() {
	t := &c.mu.turn
	for range maxTurns {
		if c.mu.control.Len() > 0 {
			t.batch = append(t.batch, c.mu.control.Bytes()...)
			c.mu.control.Reset()
		}
		if c.mu.phase >= failed || len(t.batch) > pull.BatchSize-minFrameSize {
			return
		}
		s := c.mu.queues.next(c.mu.out > 0)
		if s == nil {
			return
		}
		c.emitLocked(s)
	}
}

// scheduleLocked puts a stream into a queue if it has something to send and its own
// flow-control window allows it.
func (c *conn) scheduleLocked(s *stream) {
	switch {
	case s.queue != nil || !s.pendingLocked():
	case len(s.heads) > 0 || !s.hasBytesLocked():
		c.mu.queues.ready.push(s)
	case s.out <= 0:
		s.beginStallLocked() // a window update schedules the stream again
	case c.mu.out <= 0:
		s.beginStallLocked()
		c.mu.queues.starved.push(s)
	default:
		c.mu.queues.ready.push(s)
	}
}

// emitLocked appends a stream's frames to the buffer, at most one of them with DATA, and
// schedules the stream again if it has more.
func (c *conn) emitLocked(s *stream) {
	for i, h := range s.heads {
		ends := i == len(s.heads)-1 && s.ends && len(s.chunks) == 0 && s.trailers == nil
		c.appendHeadLocked(s, h, ends)
		if ends {
			c.endStreamLocked(s)
			return
		}
	}
	if s.heads != nil {
		s.heads = nil
		s.changed.Broadcast()
	}
	if s.roomLocked() > 0 {
		s.pauseStallLocked()
	}
	if len(s.chunks) == 0 && s.source != nil && s.sourceReady && s.roomLocked() > 0 {
		c.noteFillStartLocked(s)
		c.askLocked(s)
		defer c.copyLeftOverLocked(s)
	}
	if len(s.chunks) > 0 && c.appendDataLocked(s) {
		c.endStreamLocked(s)
		return
	}
	if len(s.chunks) == 0 && s.ends && s.state != streamClosed {
		if s.trailers != nil {
			c.appendHeadLocked(s, s.trailers, true)
		} else {
			c.mu.turn.batch = appendFrame(c.mu.turn.batch, http2.FrameData, http2.FlagDataEndStream, s.id, 0)
		}
		c.endStreamLocked(s)
		return
	}
	c.scheduleLocked(s)
}

// copyLeftOverLocked copies the list of a source's chunks that were not sent: the list
// that it was filled into belongs to the turn.
func (c *conn) copyLeftOverLocked(s *stream) {
	s.chunks = slices.Clone(s.chunks)
	clear(c.mu.turn.chunks)
}

// roomLocked returns how many bytes of DATA the stream may send in this turn.
func (s *stream) roomLocked() int {
	return int(max(0, min(s.out, s.conn.mu.out, maxPayload)))
}

// appendDataLocked appends a DATA frame with the chunks that fit. It returns true if
// that was the stream's last frame.
func (c *conn) appendDataLocked(s *stream) (ends bool) {
	room, n, whole := s.roomLocked(), 0, true
	for _, chunk := range s.chunks {
		if n += len(chunk); n > room {
			n, whole = room, false
			break
		}
	}
	if n == 0 && !whole {
		return false
	}
	var flags http2.Flags
	if ends = whole && s.ends && s.trailers == nil; ends {
		flags = http2.FlagDataEndStream
	}
	t := &c.mu.turn
	if n > 0 || ends {
		t.batch = appendFrame(t.batch, http2.FrameData, flags, s.id, n)
	}
	left := n
	for _, chunk := range s.chunks {
		part := chunk[:min(left, len(chunk))]
		t.batch = append(t.batch, part...)
		if left -= len(part); left == 0 {
			break
		}
	}
	c.notePlacedLocked(s, n)
	if whole && !s.sourceReady {
		s.pauseStallLocked()
		s.stall = nil
	}
	s.out -= outflow(n)
	c.mu.out -= outflow(n)
	s.dropFramedLocked(n, whole)
	return ends
}

// endStreamLocked closes a stream whose last frame is in the buffer. The rest of the
// request's body, if any, will be discarded.
func (c *conn) endStreamLocked(s *stream) {
	if s.state == open {
		c.halfCloseLocked(s)
	}
	s.closeLocked(errHandlerComplete)
}
