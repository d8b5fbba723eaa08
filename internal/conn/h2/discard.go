package h2

import (
	"time"

	"golang.org/x/net/http2"
)

const (
	// maxDiscarded is how many bytes of a request's body a client may send after the handler
	// has returned.
	maxDiscarded = 16 << 20
	// discardPeriod is how long a client may send nothing of such a body, once the answer is
	// sent, before the stream is reset. It may take up to twice as long.
	discardPeriod = 3 * time.Second
	// maxDiscardPeriods bounds how long such a body may take, in discardPeriods.
	maxDiscardPeriods = 20
)

// bodyDiscard is the rest of a request's body whose handler has returned. Once the answer
// is sent, the stream is half-closed (local) in the words of RFC 9113, 5.1.
//
//	open ──handler returns──► discarding ──answer sent──► half-closed ──END_STREAM──► closed
//	                                                          └──RST_STREAM──► reset
//
// RFC 9113 (8.1) allows to reset the stream after the answer, which would save these
// bytes. But some clients lose an answer that arrives with a reset, and others write
// their whole body before they read. So the client may send its body to the end, within
// the bounds above. Beyond them the stream is reset.
type bodyDiscard struct {
	in inflow
	// received counts the body's bytes since the handler has returned. lastReceived is that
	// count at the last check.
	received, lastReceived int64
	// periods counts the discard periods that have passed.
	periods int
	// goAwayAfter says that a GOAWAY is sent when the body has ended.
	goAwayAfter bool
}

// resetStream is a stream that the server has reset before the client had ended it.
type resetStream struct {
	id uint32
	// left is the number of bytes that the client may send before it reads the reset.
	left int32
}

// discardSet holds the streams of a connection that the server has ended and the client
// perhaps has not. The connection's end does not wait for them, but they count against
// MaxConcurrentStreams.
type discardSet struct {
	bodies map[uint32]*bodyDiscard
	// received counts the bytes of all bodies. lastReceived is that count at the last
	// call of progressed.
	received, lastReceived int64
	// timer calls checkDiscards each discardPeriod while there are bodies.
	timer *time.Timer
	// resets is a ring of the last streams that were reset. It has MaxConcurrentStreams
	// entries at most.
	resets []resetStream
	// oldest is the index of the entry of resets that is replaced next.
	oldest int
}

// discardBodyLocked drops the body of a stream whose handler has returned, and lets the
// client send the rest of it.
func (c *conn) discardBodyLocked(s *stream) error {
	s.discard = &bodyDiscard{lastReceived: -1}
	s.body.discard()
	if err := c.creditLocked(nil, s.unread); err != nil {
		return err
	}
	s.unread = 0
	return c.creditLocked(s, int(s.in.size-s.in.left-s.in.pendingCredit))
}

// halfCloseLocked keeps the discard of a stream whose answer is sent; the rest of the
// stream is released.
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

// checkDiscards resets the streams whose clients send nothing more, or take too long.
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

// endDiscardLocked forgets a discarded body, if there is one: the client has ended it, or the
// stream is reset. It sends the GOAWAY that waits for that.
func (c *conn) endDiscardLocked(id uint32) {
	d := c.mu.discards.bodies[id]
	if delete(c.mu.discards.bodies, id); d != nil && d.goAwayAfter {
		c.goAwayLocked()
	}
}

// makeRoomLocked resets the oldest half-closed stream in favour of a new one. It returns
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

// countDiscardedLocked counts dropped bytes of a half-closed stream and credits them.
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

// onLateTrailersLocked drops trailers of a stream that the server has ended. known is
// false if there is no such stream.
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

// findReset returns the entry of a stream that was reset. It returns nil if there is
// none.
func (d *discardSet) findReset(id uint32) *resetStream {
	for i := range d.resets {
		if d.resets[i].id == id {
			return &d.resets[i]
		}
	}
	return nil
}

// rememberResetLocked records that a stream is reset, and that the client may send left
// more bytes of it.
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

// progressed reports whether clients have sent more of discarded bodies since the last
// call.
func (d *discardSet) progressed() bool {
	more := len(d.bodies) > 0 && d.received > d.lastReceived
	d.lastReceived = d.received
	return more
}

// stop forgets all bodies: the connection ends.
func (d *discardSet) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
	d.bodies = nil
}
