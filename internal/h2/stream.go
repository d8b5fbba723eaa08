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

	"github.com/millrace/millrace/internal/pull"
)

var (
	// errStreamClosed ends the reads and writes of a stream that is no more.
	errStreamClosed    = errors.New("h2: stream closed")
	errHandlerComplete = errors.New("h2: request body closed, its handler has returned")
)

// streamState says what the client may still send. When the server has sent its
// last frame the stream is closed, whatever the client still wants to say.
//
//	open ──END_STREAM──► remoteClosed ──our END_STREAM──► streamClosed
//	  └──────────our END_STREAM: discard has the rest─────────▲
//	  └──────────RST_STREAM of either side────────────────────┘
type streamState int

const (
	open streamState = iota
	remoteClosed
	streamClosed
)

// stream is a request and its answer.
type stream struct {
	conn     *conn
	id       uint32
	handler  http.Handler
	request  *http.Request
	response response
	cancel   context.CancelFunc
	// body is nil when the request has none.
	body *body
	// declaredLength is the length of the body, -1 when the client did not say it.
	declaredLength int64
	// wakePending is set by Wake until a worker has noticed.
	wakePending atomic.Bool
	// wakeIndex is the place in wakes.streams, from 1. A closed stream has none.
	wakeIndex int

	// The rest is guarded by conn.mu.

	state streamState
	// err is why a closed stream was closed.
	err error
	// changed tells the handler that its bytes were framed, its Source is done with,
	// or the stream is closed.
	changed sync.Cond

	receiveState
	sendState

	readTimer, writeTimer *time.Timer
}

// endRemoteLocked notes that the client has sent everything.
func (s *stream) endRemoteLocked() {
	s.state = remoteClosed
	if s.declaredLength >= 0 && s.received != s.declaredLength {
		s.body.fail(fmt.Errorf("h2: request declared a Content-Length of %d but sent %d bytes", s.declaredLength, s.received))
		return
	}
	s.body.end()
}

// closeLocked ends a stream. Nothing of it is sent any more.
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
	s.dropUnsentLocked()
	if s.queue != nil {
		s.queue.remove(s)
	}
	c.woken.remove(s)
	delete(c.mu.streams, s.id)
	if s.body != nil {
		s.body.fail(err)
		// What the handler has not read is no longer held against the connection. If
		// the client may not be told, the connection ends.
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

// runHandler runs the handler to its end, and ends the stream.
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

// abort resets a stream behind what its handler had flushed, or without if the client
// does not let that through in time.
func (s *stream) abort() {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if len(s.heads)+len(s.segments) > 0 {
		late := time.AfterFunc(farewellTimeout, func() { s.reset(http2.ErrCodeInternal, errHandlerComplete) })
		defer late.Stop()
	}
	for s.state != streamClosed && len(s.heads)+len(s.segments) > 0 {
		s.changed.Wait()
	}
	s.resetLocked(http2.ErrCodeInternal, errHandlerComplete)
}

// reset ends the stream with RST_STREAM.
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

// setDeadline has something done at a time. A time in the past is now, a zero one
// never.
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

// receiveState is what a client may send and has sent on a stream.
type receiveState struct {
	in inflow
	// received counts the bytes of the body, unread those which the handler has not
	// read yet.
	received int64
	unread   int
	// discard is what becomes of the body when the handler has returned.
	discard *bodyDiscard
}

// sendState is what is to be sent on a stream.
type sendState struct {
	out outflow
	queueLinks
	// headQueued says that the response's head was handed over, leaves that the client is to
	// open no more streams when this one has ended.
	headQueued, goAwayAfter bool
	// heads come first: informational ones, then the response's.
	heads []*head
	// segments follow. They belong to others, who leave them alone until they are
	// framed; buffer does not: it goes back to its pool then.
	segments [][]byte
	pair     [2][]byte
	buffer   *buffer
	// trailers follow when ends is set, or an empty frame if nothing else can say so.
	ends     bool
	trailers *head

	source pull.Source
	// receiver is the source, if it is one.
	receiver pull.Receiver
	// stall is nil while the client lets everything through.
	stall *stallClock
	// sourceReady says that the source is to be asked, asking that it is being asked,
	// ended that it has said its last word.
	sourceReady, askingSource, sourceEnded bool
}

// pendingLocked says whether there is something to send, windows aside.
func (s *stream) pendingLocked() bool {
	return s.state != streamClosed && (len(s.heads) > 0 || s.ends || s.hasBytesLocked())
}

func (s *stream) hasBytesLocked() bool {
	return len(s.segments) > 0 || s.source != nil && s.sourceReady
}

// queueBytesLocked adds what the handler has to say: a filled buffer and bytes that it
// lends. It waits until what it said before is framed.
func (s *stream) queueBytesLocked(b *buffer, lent []byte) error {
	for len(s.segments) > 0 && s.state != streamClosed {
		s.changed.Wait()
	}
	if s.state == streamClosed {
		b.release()
		return s.err
	}
	s.segments = s.pair[:0]
	if b != nil && b.n > 0 {
		s.segments = append(s.segments, b.bytes[:b.n])
	}
	s.buffer = b
	if len(lent) > 0 {
		s.segments = append(s.segments, lent)
	}
	return nil
}

// dropFramedLocked takes n bytes of the segments off, or the whole.
func (s *stream) dropFramedLocked(n int, whole bool) {
	if whole {
		s.releaseSegmentsLocked()
		return
	}
	for n >= len(s.segments[0]) {
		n -= len(s.segments[0])
		s.segments[0] = nil
		s.segments = s.segments[1:]
	}
	s.segments[0] = s.segments[0][n:]
}

// releaseSegmentsLocked lets go of what was framed. A handler that pulls sleeps on until the
// source has ended.
func (s *stream) releaseSegmentsLocked() {
	s.segments = nil
	s.buffer.release()
	s.buffer = nil
	if s.source == nil || s.sourceEnded {
		s.changed.Broadcast()
	}
}

// dropUnsentLocked lets go of what will not be sent.
func (s *stream) dropUnsentLocked() {
	clear(s.pair[:])
	s.heads, s.trailers, s.ends = nil, nil, false
	s.releaseSegmentsLocked()
}
