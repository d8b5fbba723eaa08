package h2

import "golang.org/x/net/http2"

// ignoreLocked drops a frame of a stream that the client opened after the second GOAWAY.
// DATA still counts against the connection's window (RFC 9113, 6.8).
func (c *conn) ignoreLocked(f http2.Frame) error {
	if data, ok := f.(*http2.DataFrame); ok {
		return c.refundLocked(data)
	}
	return nil
}

// refundLocked counts a dropped DATA frame against the connection's window and credits
// its bytes immediately.
func (c *conn) refundLocked(f *http2.DataFrame) error {
	if !c.mu.in.take(int(f.Length)) {
		return streamError(f.StreamID, http2.ErrCodeFlowControl)
	}
	return c.creditLocked(nil, int(f.Length))
}

// creditLocked gives the client credit for n more bytes: on stream s, or on the
// connection if s is nil.
func (c *conn) creditLocked(s *stream, n int) error {
	var increment, id uint32
	if s == nil {
		increment = c.mu.in.credit(n)
	} else {
		increment, id = s.in.credit(n), s.id
	}
	if increment == 0 || c.mu.phase >= failed {
		return nil
	}
	_ = c.framer.WriteWindowUpdate(id, increment)
	return c.flushControlLocked()
}

func (c *conn) onDataLocked(f *http2.DataFrame) error {
	s := c.mu.streams[f.StreamID]
	if s == nil && c.isUnusedLocked(f.StreamID) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if s == nil {
		return c.onLateDataLocked(f)
	}
	if s.state != open {
		if err := c.refundLocked(f); err != nil {
			return err
		}
		return streamError(f.StreamID, http2.ErrCodeStreamClosed)
	}
	data := f.Data()
	if s.declaredLength >= 0 && s.received+int64(len(data)) > s.declaredLength {
		if err := c.refundLocked(f); err != nil {
			return err
		}
		s.body.fail(errLongRequest)
		return streamError(f.StreamID, http2.ErrCodeProtocol)
	}
	if err := c.countEmpty(f); err != nil {
		return err
	}
	if n := int(f.Length); n > int(c.mu.in.left) || n > int(s.in.left) {
		return streamError(f.StreamID, http2.ErrCodeFlowControl)
	}
	if err := c.receiveLocked(s, int(f.Length), data); err != nil {
		return err
	}
	if f.StreamEnded() {
		s.endRemoteLocked()
	}
	return nil
}

// countEmpty counts consecutive DATA frames that carry no bytes and end nothing.
func (c *conn) countEmpty(f *http2.DataFrame) error {
	if len(f.Data()) > 0 || f.StreamEnded() {
		c.emptyFrames = 0
	} else if c.emptyFrames++; c.emptyFrames > maxEmpty {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

// receiveLocked appends a frame's data to its stream's body. Padding is credited immediately,
// and so are bytes that the handler will not read.
func (c *conn) receiveLocked(s *stream, length int, data []byte) error {
	c.mu.in.take(length)
	s.in.take(length)
	s.received += int64(len(data))
	pad := length - len(data)
	if s.body.write(data) {
		s.unread += len(data)
	} else if err := c.creditLocked(nil, len(data)); err != nil {
		return err
	} else if d := s.discard; d != nil {
		if d.received += int64(len(data)); d.received <= maxDiscarded {
			if err := c.creditLocked(s, len(data)); err != nil {
				return err
			}
		}
	}
	if err := c.creditLocked(nil, pad); err != nil {
		return err
	}
	return c.creditLocked(s, pad)
}
