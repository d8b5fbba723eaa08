package h2

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/conn/pull"
)

var (
	// errStreamClosed is the error of reads and writes of a stream that was closed.
	errStreamClosed = errors.New("h2: stream closed")
	// errHandlerComplete is the error of reads of a body whose handler has returned.
	errHandlerComplete = errors.New("h2: request body closed, its handler has returned")
)

// streamState says what the client may still send. Once the server has sent its last
// frame, the stream is closed, whatever the client still sends.
//
//	open ──END_STREAM──► remoteClosed ──our END_STREAM──► streamClosed
//	  └──────────our END_STREAM: discardSet has the rest──────▲
//	  └──────────RST_STREAM of either side────────────────────┘
type streamState int

const (
	open streamState = iota
	remoteClosed
	streamClosed
)

// stream is a request and its response.
type stream struct {
	conn     *conn
	id       uint32
	handler  http.Handler
	request  *http.Request
	response response
	cancel   context.CancelFunc
	// body is nil if the request has none.
	body *body
	// declaredLength is the Content-Length of the request. It is -1 if there is none.
	declaredLength int64
	// wakePending is set by Wake, and cleared when the stream is taken off the wakeList.
	wakePending atomic.Bool
	// wakeIndex is the stream's place in wakeList.mu.streams, from 1. It is 0 if the stream is
	// not in the list, and notWakeable once the stream is closed. wakeList.mu guards it while
	// the stream is in the list.
	wakeIndex int

	// conn.mu guards the fields that follow.

	state streamState
	// err is the reason why a closed stream was closed.
	err error
	// changed is signaled when the handler's bytes were framed, its Source has ended, or
	// the stream is closed.
	changed sync.Cond

	receiveState
	sendState

	readTimer, writeTimer *time.Timer
}

// endRemoteLocked records that the client has sent its whole body.
func (s *stream) endRemoteLocked() {
	s.state = remoteClosed
	if s.declaredLength >= 0 && s.received != s.declaredLength {
		s.body.fail(fmt.Errorf("h2: request declared a Content-Length of %d but sent %d bytes", s.declaredLength, s.received))
		return
	}
	s.body.end()
}

// closeLocked closes a stream. Nothing more of it is sent.
func (s *stream) closeLocked(err error) {
	if s.state == streamClosed {
		return
	}
	c := s.conn
	s.state, s.err = streamClosed, err
	for _, t := range []*time.Timer{s.readTimer, s.writeTimer} {
		if t != nil {
			t.Stop()
		}
	}
	s.pauseStallLocked()
	s.dropUnsentLocked()
	if s.queue != nil {
		s.queue.remove(s)
	}
	c.woken.remove(s)
	delete(c.mu.streams, s.id)
	if s.body != nil {
		s.body.fail(err)
		// Bytes that the handler has not read are credited to the connection. If that
		// cannot be announced, the connection ends.
		if c.creditLocked(nil, s.unread) != nil {
			go c.close()
		}
		s.unread = 0
	}
	s.cancel()
	s.changed.Broadcast()
	if s.goAwayAfter && c.mu.discards.bodies[s.id] == nil {
		c.goAwayLocked()
	}
	if len(c.mu.streams) == 0 && c.mu.phase < failed {
		c.setStateLocked(http.StateIdle)
		c.startIdleTimerLocked()
		c.closeIfDrainedLocked()
	}
}

// runHandler runs the handler, then ends the stream.
func (s *stream) runHandler() {
	c := s.conn
	defer c.handlerEnded()
	returned := false
	defer func() {
		defer s.cancel()
		if form := s.request.MultipartForm; form != nil {
			_ = form.RemoveAll()
		}
		if returned {
			s.response.finish()
			return
		}
		if e := recover(); e != nil && e != http.ErrAbortHandler {
			trace := make([]byte, 64<<10)
			c.logf("h2: panic serving %v: %v\n%s", c.remote, e, trace[:runtime.Stack(trace, false)])
		}
		s.response.abandon()
		s.abort()
	}()
	s.handler.ServeHTTP(&s.response, s.request)
	returned = true
}

// abort resets a stream whose handler panicked. Bytes that it had flushed are sent
// before, if the client takes them within farewellTimeout.
func (s *stream) abort() {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if len(s.heads)+len(s.chunks) > 0 {
		late := time.AfterFunc(farewellTimeout, func() { s.reset(http2.ErrCodeInternal, errHandlerComplete) })
		defer late.Stop()
	}
	for s.state != streamClosed && len(s.heads)+len(s.chunks) > 0 {
		s.changed.Wait()
	}
	s.resetLocked(http2.ErrCodeInternal, errHandlerComplete)
}

// reset closes the stream with RST_STREAM.
func (s *stream) reset(code http2.ErrCode, cause error) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.resetLocked(code, cause)
}

func (s *stream) resetLocked(code http2.ErrCode, cause error) {
	if s.state != streamClosed {
		s.conn.resetLocked(http2.StreamError{StreamID: s.id, Code: code, Cause: cause})
	}
}

func (s *stream) setReadTimerLocked(after time.Duration) {
	s.readTimer = time.AfterFunc(after, s.readTooLong)
}

func (s *stream) setWriteTimerLocked(after time.Duration) {
	s.writeTimer = time.AfterFunc(after, s.writeTooLong)
}

func (s *stream) readTooLong() {
	if s.body != nil {
		s.body.fail(fmt.Errorf("h2: reading the request: %w", os.ErrDeadlineExceeded))
	}
}

func (s *stream) writeTooLong() {
	s.reset(http2.ErrCodeInternal, fmt.Errorf("h2: writing the response: %w", os.ErrDeadlineExceeded))
}

// setDeadline calls act at that time: immediately if it is past, never if it is zero. It
// replaces the deadline in timer.
func (s *stream) setDeadline(timer **time.Timer, at time.Time, act func()) {
	after := time.Until(at)
	if !at.IsZero() && after <= 0 {
		act()
		return
	}
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
	if !at.IsZero() && s.state != streamClosed {
		*timer = time.AfterFunc(after, act)
	}
}

// receiveState is what the client has sent, and may send, on a stream.
type receiveState struct {
	in inflow
	// received counts the bytes of the body.
	received int64
	// unread counts the bytes that the handler has not read.
	unread int
	// discard is set when the handler has returned before the end of the body.
	discard *bodyDiscard
}

// sendState is what is to be sent on a stream.
type sendState struct {
	out outflow
	queueLinks
	// headQueued says that the response's head was handed over. goAwayAfter says that a
	// GOAWAY follows the end of this stream.
	headQueued, goAwayAfter bool
	// heads are sent first: informational ones, then the response's.
	heads []*head
	// chunks are sent next. Their bytes belong to the handler or the Source, which must
	// leave them unchanged until they are framed.
	chunks [][]byte
	// pair is the memory of chunks while they are the handler's.
	pair [2][]byte
	// buffer holds chunks that belong to the stream. It returns to its pool when they are
	// framed.
	buffer *buffer
	// ends says that the response ends after chunks. It ends with trailers if there are
	// any, else with END_STREAM on the last frame or on an empty one.
	ends     bool
	trailers *head

	source pull.Source
	// receiver is source, if that is a Receiver too.
	receiver pull.Receiver
	// stall is nil if the windows have not stalled since the client last let everything through.
	stall *stallClock
	// sourceReady says that the source may have bytes. askingSource says that a goroutine
	// is calling it. sourceEnded says that it has returned an error or io.EOF.
	sourceReady, askingSource, sourceEnded bool
}

// pendingLocked reports whether there is something to send, regardless of the
// flow-control windows.
func (s *stream) pendingLocked() bool {
	return s.state != streamClosed && (len(s.heads) > 0 || s.ends || s.hasBytesLocked())
}

func (s *stream) hasBytesLocked() bool {
	return len(s.chunks) > 0 || s.source != nil && s.sourceReady
}

// queueBytesLocked queues bytes of the handler: a filled buffer, then lent bytes. It
// waits until earlier ones are framed.
func (s *stream) queueBytesLocked(b *buffer, lent []byte) error {
	for len(s.chunks) > 0 && s.state != streamClosed {
		s.changed.Wait()
	}
	if s.state == streamClosed {
		b.release()
		return s.err
	}
	s.chunks = s.pair[:0]
	if b != nil && b.n > 0 {
		s.chunks = append(s.chunks, b.bytes[:b.n])
	}
	s.buffer = b
	if len(lent) > 0 {
		s.chunks = append(s.chunks, lent)
	}
	return nil
}

// dropFramedLocked removes n bytes from chunks, or all of them.
func (s *stream) dropFramedLocked(n int, whole bool) {
	if whole {
		s.releaseChunksLocked()
		return
	}
	for n >= len(s.chunks[0]) {
		n -= len(s.chunks[0])
		s.chunks[0] = nil
		s.chunks = s.chunks[1:]
	}
	s.chunks[0] = s.chunks[0][n:]
}

// releaseChunksLocked releases the chunks after they were framed. It wakes the handler, unless
// the handler pulls and its source has not ended.
func (s *stream) releaseChunksLocked() {
	s.chunks = nil
	s.buffer.release()
	s.buffer = nil
	if s.source == nil || s.sourceEnded {
		s.changed.Broadcast()
	}
}

// dropUnsentLocked drops everything that was to be sent.
func (s *stream) dropUnsentLocked() {
	clear(s.pair[:])
	s.heads, s.trailers, s.ends = nil, nil, false
	s.releaseChunksLocked()
}
