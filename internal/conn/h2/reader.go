package h2

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"
)

// reader is the state of the goroutine that reads a connection, for the watchdog that
// relieves it.
//
//	reading ──inline request──► running its handler ──handler returns──► reading
//	                                    └──two looks find the same handler──► relieved:
//	                                       another goroutine reads on
//
// A reader that is relieved finishes its handler and ends. conn.mu guards the fields.
type reader struct {
	// running is the stream whose handler the reader executes. lastRunning is the stream
	// whose handler it executed at the watchdog's last look. begun counts inline handlers
	// since that look.
	running, lastRunning *stream
	begun                int
	// watchdog looks each watchdogPeriod while the reader runs handlers. One timer for
	// many requests is cheaper than one for each.
	watchdog     *time.Timer
	watchdogRuns bool
}

// watchdogPeriod is how long a handler at least blocks the reader before it is relieved;
// twice that at most.
const watchdogPeriod = 5 * time.Millisecond

// readPreface reads the client's connection preface. It returns false if the client sends
// something else.
func (c *conn) readPreface() bool {
	_ = c.nc.SetReadDeadline(time.Now().Add(greetingTimeout))
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.nc, preface); err != nil || string(preface) != http2.ClientPreface {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setStateLocked(http.StateActive)
	c.setStateLocked(http.StateIdle)
	c.startIdleTimerLocked()
	return true
}

// read reads and handles frames until the connection ends or another goroutine takes
// over. first says that the next frame is the first of the connection, which must be
// SETTINGS.
func (c *conn) read(first bool) {
	defer c.recover()
	for ; ; first = false {
		f, err := c.framer.ReadFrame()
		if err == nil && first {
			if _, ok := f.(*http2.SettingsFrame); !ok {
				err = http2.ConnectionError(http2.ErrCodeProtocol)
			}
			_ = c.nc.SetReadDeadline(time.Time{})
		}
		if err == nil {
			err = c.handleFrame(f)
		}
		if err != nil && !c.handleError(f, err) {
			c.close()
			return
		}
		if s := c.nextToStart; s != nil {
			c.nextToStart = nil
			if !c.startHandler(s) {
				return
			}
		}
	}
}

// startHandler starts a stream's handler, or runs it inline. It returns false if another
// goroutine reads meanwhile.
func (c *conn) startHandler(s *stream) bool {
	if inline := c.server.cfg.Inline; inline != nil && s.body == nil {
		if req := inline(s.request); req != nil {
			s.request = req
			return c.runInline(s)
		}
	}
	c.server.run(s)
	return true
}

// runInline runs a handler that is not expected to block. It returns false if the reader
// was relieved.
func (c *conn) runInline(s *stream) bool {
	c.mu.Lock()
	r := &c.mu.reader
	r.running = s
	r.begun++
	if !r.watchdogRuns {
		r.watchdogRuns = true
		if r.watchdog == nil {
			r.watchdog = time.AfterFunc(watchdogPeriod, c.relieveReader)
		} else {
			r.watchdog.Reset(watchdogPeriod)
		}
	}
	c.mu.Unlock()
	s.runHandler()
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.running != s {
		return false
	}
	r.running = nil
	return true
}

// relieveReader is the watchdog's function. If the reader still runs the handler of the
// last look, another goroutine takes over the reading.
func (c *conn) relieveReader() {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.mu.reader
	if r.running != nil && r.running == r.lastRunning {
		r.running = nil
		c.successors.Go(func() { c.read(false) })
	}
	r.lastRunning = r.running
	if r.watchdogRuns = r.begun > 0 && c.mu.phase < closed; r.watchdogRuns {
		r.watchdog.Reset(watchdogPeriod)
	}
	r.begun = 0
}

// handleError answers an error with a reset or a GOAWAY. It returns false if nothing more
// is to be read.
func (c *conn) handleError(f http2.Frame, err error) bool {
	var ofStream http2.StreamError
	var ofConn http2.ConnectionError
	switch {
	case errors.As(err, &ofStream):
		c.mu.Lock()
		defer c.mu.Unlock()
		id := ofStream.StreamID
		refused, ok := f.(*http2.MetaHeadersFrame)
		begins := ok && !refused.StreamEnded() && c.mu.streams[id] == nil
		if id%2 == 1 && id > c.mu.lastStreamID && c.mu.phase < draining {
			c.mu.lastStreamID, begins = id, true // a new stream whose headers are invalid
		}
		if begins {
			c.rememberResetLocked(id, c.server.cfg.MaxUploadBufferPerStream)
		}
		c.resetLocked(ofStream)
		return c.mu.phase < failed
	case errors.As(err, &ofConn):
		if f != nil {
			c.mu.Lock()
			c.mu.lastStreamID = max(c.mu.lastStreamID, f.Header().StreamID)
			c.mu.Unlock()
		}
		c.logf("h2: connection error from %v: %v", c.remote, ofConn)
		c.fail(http2.ErrCode(ofConn))
	case errors.Is(err, http2.ErrFrameTooLarge):
		c.fail(http2.ErrCodeFrameSize)
	}
	return false
}

// handleFrame handles one frame.
func (c *conn) handleFrame(f http2.Frame) error {
	if headers, ok := f.(*http2.MetaHeadersFrame); ok {
		return c.onHeaders(headers)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.phase == draining && f.Header().StreamID > c.mu.lastStreamID {
		return c.ignoreLocked(f)
	}
	switch f := f.(type) {
	case *http2.DataFrame:
		return c.onDataLocked(f)
	case *http2.SettingsFrame:
		return c.onSettingsLocked(f)
	case *http2.WindowUpdateFrame:
		return c.onWindowUpdateLocked(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = c.framer.WritePing(true, f.Data)
			return c.flushControlLocked()
		}
	case *http2.RSTStreamFrame:
		return c.onResetLocked(f)
	case *http2.PriorityFrame:
		if f.StreamDep == f.StreamID {
			return streamError(f.StreamID, http2.ErrCodeProtocol)
		}
	case *http2.GoAwayFrame:
		c.drainLocked()
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil
}

func streamError(id uint32, code http2.ErrCode) error {
	return http2.StreamError{StreamID: id, Code: code}
}

// flushControlLocked lets a worker write the control frames. If too many wait, it returns
// an error that ends the connection, which is then reset. The client reads nothing, so it
// would not see an orderly end for a long time.
func (c *conn) flushControlLocked() error {
	if c.mu.control.Len() > maxControl {
		if above, ok := c.nc.(interface{ NetConn() net.Conn }); ok {
			if tcp, ok := above.NetConn().(interface{ SetLinger(sec int) error }); ok {
				_ = tcp.SetLinger(0)
			}
		}
		return errors.New("h2: too many control frames wait to be written")
	}
	c.kick()
	return nil
}

// resetLocked sends RST_STREAM and closes the stream, if it is known.
func (c *conn) resetLocked(e http2.StreamError) {
	if c.mu.phase >= failed {
		return
	}
	_ = c.framer.WriteRSTStream(e.StreamID, e.Code)
	s, m := c.mu.streams[e.StreamID], &c.mu.discards
	if s != nil && s.state == open {
		c.rememberResetLocked(e.StreamID, s.in.left)
	} else if d := m.bodies[e.StreamID]; d != nil {
		c.rememberResetLocked(e.StreamID, d.in.left)
	}
	if s != nil {
		err := e.Cause
		if err == nil {
			err = errStreamClosed
		}
		s.closeLocked(err)
	}
	if c.flushControlLocked() != nil {
		go c.close()
	}
}

// isUnusedLocked reports whether a stream is idle in the sense of RFC 9113, 5.1: it has
// not been opened.
func (c *conn) isUnusedLocked(id uint32) bool { return id%2 == 0 || id > c.mu.lastStreamID }

func (c *conn) onSettingsLocked(f *http2.SettingsFrame) error {
	if f.IsAck() {
		if c.mu.settingsAcked {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.mu.settingsAcked = true
		return nil
	}
	if f.NumSettings() > 100 || f.HasDuplicates() {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if err := f.ForeachSetting(c.onSettingLocked); err != nil {
		return err
	}
	_ = c.framer.WriteSettingsAck()
	return c.flushControlLocked()
}

func (c *conn) onSettingLocked(set http2.Setting) error {
	if err := set.Valid(); err != nil {
		return err
	}
	switch set.ID {
	case http2.SettingHeaderTableSize:
		c.mu.turn.encoder.SetMaxDynamicTableSize(set.Val)
	case http2.SettingInitialWindowSize:
		growth := int64(set.Val) - c.mu.initialWindow
		c.mu.initialWindow = int64(set.Val)
		for _, s := range c.mu.streams {
			if !s.out.add(growth) {
				return http2.ConnectionError(http2.ErrCodeFlowControl)
			}
			c.scheduleLocked(s)
		}
	}
	return nil
}

func (c *conn) onWindowUpdateLocked(f *http2.WindowUpdateFrame) error {
	if f.StreamID == 0 {
		if !c.mu.out.add(int64(f.Increment)) {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		c.kickReadyLocked()
		return nil
	}
	s := c.mu.streams[f.StreamID]
	if s == nil {
		if c.isUnusedLocked(f.StreamID) {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		return nil
	}
	if !s.out.add(int64(f.Increment)) {
		return streamError(f.StreamID, http2.ErrCodeFlowControl)
	}
	c.scheduleLocked(s)
	c.kickReadyLocked()
	return nil
}

func (c *conn) onResetLocked(f *http2.RSTStreamFrame) error {
	s := c.mu.streams[f.StreamID]
	if s == nil {
		if c.isUnusedLocked(f.StreamID) {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.endDiscardLocked(f.StreamID)
		return nil
	}
	s.closeLocked(streamError(f.StreamID, f.ErrCode))
	return nil
}
