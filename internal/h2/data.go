package h2

import "golang.org/x/net/http2"

// ignoreLocked ignores a frame of a stream that the client began after it was told
// not to. Its bytes count for the connection (RFC 9113, 6.8).
func (c *conn) ignoreLocked(f http2.Frame) error {
	if data, ok := f.(*http2.DataFrame); ok {
		return c.wasteLocked(data)
	}
	return nil
}

// wasteLocked gives back at once what a frame took of the connection's window.
func (c *conn) wasteLocked(f *http2.DataFrame) error {
	if !c.mu.in.take(int(f.Length)) {
		return streamError(f.StreamID, http2.ErrCodeFlowControl)
	}
	return c.giveLocked(nil, int(f.Length))
}

// giveLocked lets the client send n more bytes: of a stream or, with nil, in all.
func (c *conn) giveLocked(s *stream, n int) error {
	var told, id uint32
	if s == nil {
		told = c.mu.in.give(n)
	} else {
		told, id = s.in.give(n), s.id
	}
	if told == 0 || c.mu.phase >= failed {
		return nil
	}
	_ = c.framer.WriteWindowUpdate(id, told)
	return c.controlLocked()
}

func (c *conn) onDataLocked(f *http2.DataFrame) error {
	s := c.mu.streams[f.StreamID]
	if s == nil && c.isIdleLocked(f.StreamID) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if s == nil {
		return c.onLateDataLocked(f)
	}
	if s.state != open {
		if err := c.wasteLocked(f); err != nil {
			return err
		}
		return streamError(f.StreamID, http2.ErrCodeStreamClosed)
	}
	data := f.Data()
	if s.declared >= 0 && s.received+int64(len(data)) > s.declared {
		if err := c.wasteLocked(f); err != nil {
			return err
		}
		s.body.fail(errTooLong)
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

// countEmpty counts frames in a row that say nothing.
func (c *conn) countEmpty(f *http2.DataFrame) error {
	if len(f.Data()) > 0 || f.StreamEnded() {
		c.emptyFrames = 0
	} else if c.emptyFrames++; c.emptyFrames > maxEmpty {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

// receiveLocked gives data to a stream's body. Padding, and what the handler no
// longer reads, is given back at once.
func (c *conn) receiveLocked(s *stream, length int, data []byte) error {
	c.mu.in.take(length)
	s.in.take(length)
	s.received += int64(len(data))
	pad := length - len(data)
	if s.body.write(data) {
		s.unread += len(data)
	} else if err := c.giveLocked(nil, len(data)); err != nil {
		return err
	} else if d := s.discard; d != nil {
		if d.received += int64(len(data)); d.received <= maxDiscarded {
			if err := c.giveLocked(s, len(data)); err != nil {
				return err
			}
		}
	}
	if err := c.giveLocked(nil, pad); err != nil {
		return err
	}
	return c.giveLocked(s, pad)
}
