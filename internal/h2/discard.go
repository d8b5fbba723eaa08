package h2

import (
	"time"

	"golang.org/x/net/http2"
)

const (
	// maxDiscarded is how much of a request's body a client may send behind the answer,
	// in bytes.
	maxDiscarded = 16 << 20
	// discardPeriod is how long it may send nothing of it, or twice as long.
	discardPeriod = 3 * time.Second
	// maxDiscardPeriods bounds how long it may take for it.
	maxDiscardPeriods = 20
)

// bodyDiscard is a request's body that nobody reads. With its answer sent, the stream is
// half-closed (local) as RFC 9113, 5.1 has it.
//
//	open ──the handler returns──► discarded ──answer sent──► half-closed ──END_STREAM──► closed
//	                                                              └──RST_STREAM──► reset
//
// To reset the stream behind the answer would save the bytes (8.1). But clients lose an
// answer that comes with its reset, and others write their whole body before they read.
// So the client may send its body to the end, within bounds. It is reset beyond.
type bodyDiscard struct {
	in inflow
	// received counts its bytes, seen those at the last look.
	received, lastReceived int64
	// periods counts the periods that have ended.
	periods int
	// goAwayAfter says that the client is to open no more streams when this one has ended.
	goAwayAfter bool
}

// resetStream is a stream that the server has reset before its client had ended it.
type resetStream struct {
	id uint32
	// left is how many bytes the client may have sent before it learns of that.
	left int32
}

// discardSet are the streams of a connection that the server has ended, and perhaps not
// the client. The connection does not wait for them, but they count as concurrent ones.
type discardSet struct {
	bodies map[uint32]*bodyDiscard
	// received counts the bytes of all, seen those at the last call of progress.
	received, lastReceived int64
	// timer looks each discardPeriod, as long as there are bodies.
	timer *time.Timer
	// resets are the last ones, as many as there may be streams. The next replaces the
	// oldest, which is at oldest when there are so many.
	resets []resetStream
	oldest int
}

// discardBodyLocked lets a client send the rest of a body, which nobody reads.
func (c *conn) discardBodyLocked(s *stream) error {
	s.discard = &bodyDiscard{lastReceived: -1}
	s.body.discard()
	if err := c.creditLocked(nil, s.unread); err != nil {
		return err
	}
	s.unread = 0
	return c.creditLocked(s, int(s.in.size-s.in.left-s.in.pendingCredit))
}

// halfCloseLocked keeps what is left of a stream whose answer is sent, but not its
// request.
func (c *conn) halfCloseLocked(s *stream) {
	d := s.discard
	d.in, d.goAwayAfter = s.in, s.goAwayAfter
	m := &c.mu.discards
	if m.bodies == nil {
		m.bodies = make(map[uint32]*bodyDiscard)
	}
	m.bodies[s.id] = d
	if m.timer == nil {
		m.timer = time.AfterFunc(discardPeriod, c.checkDiscards)
	}
}

// checkDiscards resets the streams whose clients do not go on, or take too long.
func (c *conn) checkDiscards() {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.mu.discards
	for id, d := range m.bodies {
		if d.periods++; d.received == d.lastReceived || d.periods > maxDiscardPeriods {
			c.resetLocked(http2.StreamError{StreamID: id, Code: http2.ErrCodeNo})
		}
		d.lastReceived = d.received
	}
	if len(m.bodies) == 0 || c.mu.phase >= failed {
		m.timer = nil
		return
	}
	m.timer.Reset(discardPeriod)
}

// endDiscardLocked forgets a body if there is one: the client has ended its stream, or it
// is reset.
func (c *conn) endDiscardLocked(id uint32) {
	d := c.mu.discards.bodies[id]
	if delete(c.mu.discards.bodies, id); d != nil && d.goAwayAfter {
		c.goAwayLocked()
	}
}

// makeRoomLocked resets a half-closed stream, the oldest one, for a new one. It returns
// false if there is none.
func (c *conn) makeRoomLocked() bool {
	var oldest uint32
	for id := range c.mu.discards.bodies {
		if oldest == 0 || id < oldest {
			oldest = id
		}
	}
	if oldest == 0 {
		return false
	}
	c.resetLocked(http2.StreamError{StreamID: oldest, Code: http2.ErrCodeNo})
	return true
}

// onLateDataLocked drops DATA of a stream that the server has ended.
func (c *conn) onLateDataLocked(f *http2.DataFrame) error {
	n := int(f.Length)
	d, r := c.mu.discards.bodies[f.StreamID], c.mu.discards.findReset(f.StreamID)
	if d != nil && n > int(d.in.left) {
		return streamError(f.StreamID, http2.ErrCodeFlowControl)
	}
	if err := c.refundLocked(f); err != nil {
		return err
	}
	if d == nil && (r == nil || n > int(r.left)) {
		return streamError(f.StreamID, http2.ErrCodeStreamClosed)
	}
	if err := c.countEmpty(f); err != nil {
		return err
	}
	switch {
	case d == nil:
		r.left -= int32(n)
	case f.StreamEnded():
		c.endDiscardLocked(f.StreamID)
	default:
		d.in.take(n)
		return c.countDiscardedLocked(f.StreamID, d, n)
	}
	return nil
}

// countDiscardedLocked counts dropped bytes of a half-closed stream.
func (c *conn) countDiscardedLocked(id uint32, d *bodyDiscard, n int) error {
	c.mu.discards.received += int64(n)
	if d.received += int64(n); d.received > maxDiscarded {
		return streamError(id, http2.ErrCodeNo)
	}
	if increment := d.in.credit(n); increment > 0 && c.mu.phase < failed {
		_ = c.framer.WriteWindowUpdate(id, increment)
		return c.flushControlLocked()
	}
	return nil
}

// onLateTrailersLocked drops trailers of a stream that the server has ended. It returns
// false if they belong to none.
func (c *conn) onLateTrailersLocked(f *http2.MetaHeadersFrame) (known bool, err error) {
	m := &c.mu.discards
	if m.bodies[f.StreamID] != nil {
		if !f.StreamEnded() || len(f.PseudoFields()) > 0 {
			return true, streamError(f.StreamID, http2.ErrCodeProtocol)
		}
		c.endDiscardLocked(f.StreamID)
		return true, nil
	}
	return m.findReset(f.StreamID) != nil, nil
}

// findReset returns a stream that was reset, nil for any other.
func (m *discardSet) findReset(id uint32) *resetStream {
	for i := range m.resets {
		if m.resets[i].id == id {
			return &m.resets[i]
		}
	}
	return nil
}

// rememberResetLocked remembers a stream that is reset, whose client may send so many
// more bytes.
func (c *conn) rememberResetLocked(id uint32, left int32) {
	m, most := &c.mu.discards, int(c.server.cfg.MaxConcurrentStreams)
	c.endDiscardLocked(id)
	if m.findReset(id) != nil {
		return
	}
	r := resetStream{id: id, left: left}
	if len(m.resets) < most {
		m.resets = append(m.resets, r)
		return
	}
	m.resets[m.oldest] = r
	m.oldest = (m.oldest + 1) % most
}

// progressed reports whether clients go on sending bodies.
func (m *discardSet) progressed() bool {
	more := len(m.bodies) > 0 && m.received > m.lastReceived
	m.lastReceived = m.received
	return more
}

// stop ends the discarding with the connection.
func (m *discardSet) stop() {
	if m.timer != nil {
		m.timer.Stop()
	}
	m.bodies = nil
}
