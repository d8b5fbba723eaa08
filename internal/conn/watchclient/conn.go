package watchclient

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// streamWindow and connWindow are how many bytes a server may send ahead, as in Go's
	// own client, which client-go uses. They are widened when half of them is read.
	streamWindow = 4 << 20
	connWindow   = 1 << 30
	// defaultWindow is a window before settings.
	defaultWindow = 65535
	// unlimitedStreams is how many streams are open on a connection if the server has no limit.
	unlimitedStreams = 1 << 20
	maxFrame         = 16 << 10
	// pingAfter without a frame, a ping is sent. After as long again the connection is
	// given up. client-go waits 30 s and 15 s.
	pingAfter = 30 * time.Second
	// writeTimeout ends a connection whose server reads nothing.
	writeTimeout = 30 * time.Second
	readBuffer   = 4 << 10
)

// conn is one connection. Its reader is the goroutine that has opened it. Any goroutine
// may write, under the lock.
type conn struct {
	client *Client
	raw    net.Conn
	framer *http2.Framer
	// framesRead counts the frames that were read.
	framesRead atomic.Int64

	mu struct {
		sync.Mutex
		out     *bufio.Writer
		headers bytes.Buffer
		encoder *hpack.Encoder
		streams map[uint32]*Stream
		// nextStreamID is the ID of the next stream.
		nextStreamID uint32
		// uncreditedBytes are the bytes that were read since the connection's window was widened.
		uncreditedBytes uint32

		// reservedStreams counts the streams that are open or about to be opened. maxStreams
		// bounds them.
		reservedStreams, maxStreams int
		// draining says that the connection takes no more streams.
		draining bool
		// sendWindow is how many bytes the server takes, for all streams. streamSendWindow is
		// how many it takes on a stream that begins.
		sendWindow, streamSendWindow int64
		// blocked are the streams that wait for a window.
		blocked []*Stream

		// ping calls conn.ping.
		ping *time.Timer
		// framesAtPing is framesRead at the last call, or -1. pinged says that a ping was sent
		// since then.
		framesAtPing int64
		pinged       bool
	}
}

// newConn sends the preface and settings, and waits for the server's, which have its limit
// of streams.
func newConn(c *Client, raw net.Conn) (*conn, error) {
	n := &conn{client: c, raw: raw}
	n.mu.out = bufio.NewWriter(raw)
	n.framer = http2.NewFramer(n.mu.out, bufio.NewReaderSize(raw, readBuffer))
	n.framer.SetReuseFrames()
	n.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	n.mu.encoder = hpack.NewEncoder(&n.mu.headers)
	n.mu.streams, n.mu.nextStreamID, n.mu.maxStreams = map[uint32]*Stream{}, 1, unlimitedStreams
	n.mu.sendWindow, n.mu.streamSendWindow, n.mu.framesAtPing = defaultWindow, defaultWindow, -1
	_, err := io.WriteString(n.mu.out, http2.ClientPreface)
	err = errors.Join(err,
		n.framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow}),
		n.framer.WriteWindowUpdate(0, connWindow-defaultWindow),
		n.flushLocked())
	if err == nil {
		err = n.awaitSettings()
	}
	if err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("greet the server: %w", err)
	}
	return n, nil
}

// awaitSettings reads the server's first frame.
func (n *conn) awaitSettings() error {
	if err := n.raw.SetReadDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	frame, err := n.framer.ReadFrame()
	if err != nil {
		return err
	}
	settings, ok := frame.(*http2.SettingsFrame)
	if !ok {
		return errors.New("the first frame has no settings")
	}
	return errors.Join(n.applySettings(settings), n.raw.SetReadDeadline(time.Time{}))
}

func (n *conn) flushLocked() error {
	if n.mu.out.Buffered() == 0 {
		return nil
	}
	if err := n.raw.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	return n.mu.out.Flush()
}

// reserve takes a place for a stream. It returns false if the connection has none.
func (n *conn) reserve() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.draining || n.mu.reservedStreams >= n.mu.maxStreams {
		return false
	}
	n.mu.reservedStreams++
	return true
}

// begin sends the request of a stream that has a place. If that fails, the stream ends,
// or the connection with all of its streams.
func (n *conn) begin(s *Stream) {
	fields, err := s.request.fields(n.client.server)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case s.over:
		n.mu.reservedStreams--
		return
	case err == nil && n.mu.draining:
		err = errors.New("the connection has ended")
	case err == nil:
		err = n.sendLocked(s, fields)
	}
	if err != nil {
		s.over = true
		n.mu.reservedStreams--
		go s.handler.End(err)
	}
}

// closeLocked makes the reader fail.
func (n *conn) closeLocked() {
	n.mu.draining = true
	_ = n.raw.Close()
}

// read reads frames until the connection ends, and then ends its streams.
func (n *conn) read() {
	n.mu.Lock()
	n.mu.ping = time.AfterFunc(pingAfter, n.ping)
	n.mu.Unlock()
	var err error
	for err == nil {
		var frame http2.Frame
		frame, err = n.framer.ReadFrame()
		if broken := (http2.StreamError{}); errors.As(err, &broken) { // a malformed header of one stream
			n.finish(n.stream(broken.StreamID), err)
			err = nil
			continue
		}
		if err == nil {
			n.framesRead.Add(1)
			err = n.handle(frame)
		}
	}
	n.fail(fmt.Errorf("the connection has ended: %w", err))
}

// ping pings a silent server, and closes the connection if it stays silent.
func (n *conn) ping() {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch frames := n.framesRead.Load(); {
	case frames != n.mu.framesAtPing:
		n.mu.framesAtPing, n.mu.pinged = frames, false
	case n.mu.pinged:
		n.closeLocked()
		return
	default:
		n.mu.pinged = true
		_ = n.framer.WritePing(false, [8]byte{})
		_ = n.flushLocked() // a broken connection also fails the reader
	}
	n.mu.ping.Reset(pingAfter)
}

// fail ends all streams.
func (n *conn) fail(err error) {
	n.client.remove(n)
	n.mu.Lock()
	n.closeLocked()
	n.mu.ping.Stop()
	streams := n.mu.streams
	n.mu.streams = map[uint32]*Stream{}
	n.mu.Unlock()
	for _, s := range streams {
		if n.endOnce(s) {
			s.handler.End(err)
		}
	}
}

// endOnce marks a stream as ended, and reports whether it was not before.
func (n *conn) endOnce(s *Stream) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.over {
		return false
	}
	s.over = true
	delete(n.mu.streams, s.id)
	n.mu.reservedStreams--
	return true
}

func (n *conn) stream(id uint32) *Stream {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.streams[id]
}

// finish ends a stream, which may be nil, and gives its place to a stream that waits.
func (n *conn) finish(s *Stream, err error) {
	if s == nil || !n.endOnce(s) {
		return
	}
	s.handler.End(err)
	n.client.advance()
}

// cancel ends a stream without telling its handler.
func (n *conn) cancel(s *Stream) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.over {
		return
	}
	s.over = true
	if s.id == 0 {
		return // begin gives the place back
	}
	delete(n.mu.streams, s.id)
	n.mu.reservedStreams--
	_ = n.framer.WriteRSTStream(s.id, http2.ErrCodeCancel)
	if n.flushLocked() != nil {
		n.closeLocked()
	}
}

// handle takes a frame. An error ends the connection.
func (n *conn) handle(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.DataFrame:
		return n.takeData(f)
	case *http2.MetaHeadersFrame:
		n.takeHeaders(f)
	case *http2.RSTStreamFrame:
		n.finish(n.stream(f.StreamID), http2.StreamError{StreamID: f.StreamID, Code: f.ErrCode})
	case *http2.SettingsFrame:
		return n.takeSettings(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			return n.write(func() error { return n.framer.WritePing(true, f.Data) })
		}
	case *http2.WindowUpdateFrame:
		return n.write(func() error {
			if f.StreamID == 0 {
				n.mu.sendWindow += int64(f.Increment)
			} else if s := n.mu.streams[f.StreamID]; s != nil {
				s.window += int64(f.Increment)
			}
			n.unblockLocked()
			return nil
		})
	case *http2.GoAwayFrame:
		n.drain(f)
	}
	return nil
}

// write runs what may send frames, under the lock, and sends them.
func (n *conn) write(do func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(do(), n.flushLocked())
}

func (n *conn) takeData(f *http2.DataFrame) error {
	s := n.stream(f.StreamID)
	if s != nil && len(f.Data()) > 0 {
		s.handler.Data(f.Data())
	}
	err := n.write(func() error {
		n.mu.uncreditedBytes += f.Length
		var err error
		if n.mu.uncreditedBytes >= connWindow/2 {
			err = n.framer.WriteWindowUpdate(0, n.mu.uncreditedBytes)
			n.mu.uncreditedBytes = 0
		}
		if s != nil && !s.over && !f.StreamEnded() {
			if s.unread += f.Length; s.unread >= streamWindow/2 {
				err = errors.Join(err, n.framer.WriteWindowUpdate(s.id, s.unread))
				s.unread = 0
			}
		}
		return err
	})
	if f.StreamEnded() {
		n.finish(s, nil)
	}
	return err
}

func (n *conn) takeHeaders(f *http2.MetaHeadersFrame) {
	s := n.stream(f.StreamID)
	if s == nil {
		return
	}
	if status, _ := strconv.Atoi(f.PseudoValue("status")); status >= http.StatusOK && !s.status { // trailers have none
		s.status = true
		h := Header{Status: status}
		for _, field := range f.RegularFields() {
			switch field.Name {
			case "content-type":
				h.ContentType = field.Value
			case "content-encoding":
				h.Gzip = field.Value == "gzip"
			case "retry-after":
				seconds, _ := strconv.Atoi(field.Value)
				h.RetryAfter = time.Duration(min(seconds, 3600)) * time.Second
			}
		}
		s.handler.Header(h)
	}
	if f.StreamEnded() {
		n.finish(s, nil)
	}
}

func (n *conn) takeSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	err := n.applySettings(f)
	n.client.advance()
	return err
}

func (n *conn) applySettings(f *http2.SettingsFrame) error {
	return n.write(func() error {
		err := f.ForeachSetting(func(setting http2.Setting) error {
			switch setting.ID {
			case http2.SettingMaxConcurrentStreams:
				n.mu.maxStreams = int(min(setting.Val, unlimitedStreams))
			case http2.SettingInitialWindowSize:
				for _, s := range n.mu.streams {
					s.window += int64(setting.Val) - n.mu.streamSendWindow
				}
				n.mu.streamSendWindow = int64(setting.Val)
			}
			return nil
		})
		n.unblockLocked()
		return errors.Join(err, n.framer.WriteSettingsAck())
	})
}

// drain takes no more streams, ends the streams that the server has not begun, and closes the
// connection if no stream is left.
func (n *conn) drain(f *http2.GoAwayFrame) {
	last := f.LastStreamID
	var refused []*Stream
	n.mu.Lock()
	n.mu.draining = true
	for id, s := range n.mu.streams {
		if id > last {
			refused = append(refused, s)
		}
	}
	empty := len(n.mu.streams) == len(refused)
	n.mu.Unlock()
	for _, s := range refused {
		n.finish(s, errors.New("the server goes away"))
	}
	if empty {
		_ = n.raw.Close()
	}
}
