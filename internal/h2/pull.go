package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// Source gives the bytes of a stream's body.
type Source interface {
	// Next appends what comes next to segments, and never waits for it. The bytes are
	// left alone by everybody from then on: they are sent later, from where they are.
	// Next should give about room bytes, which is at most 16 KiB; what does not fit is
	// kept, and Next not called before it is sent. With more there is, or may be, more
	// to send: Next is called again when there is room. Without, it is called after
	// the next Wake. io.EOF ends the body behind these bytes; another error resets the
	// stream, and the bytes are dropped.
	//
	// Next is called by one goroutine at a time, the same for all streams of a
	// connection: what it does delays the others.
	Next(segments [][]byte, room int) (_ [][]byte, more bool, err error)
}

// Receiver is a Source that is told what becomes of the bytes that it gave. It is told
// by the goroutine that calls Next, never at the same time.
type Receiver interface {
	// Taken says that some bytes of them are in the buffer of a write that is to come.
	// Shut is nil if the client's windows are open. Locks are held: it must wait for
	// nothing, not call back, and not keep its arguments.
	Taken(w *Write, bytes int, shut *Shut)
	// Written says that a write has returned which carried bytes of some receivers, of
	// which one is told, for all. It must not block, and not keep its argument. It may
	// come after Pull has returned. A write that failed is not told.
	Written(*Write)
}

// Shut says how a client's windows keep a Source from sending.
type Shut struct {
	// Since is since when they have not been open wide enough to send everything, and
	// For how long they were shut in that time.
	Since time.Time
	For   time.Duration
}

// Write is one write to the connection, for all streams that it carries bytes of.
type Write struct {
	// Number counts the writes to a connection, from 1.
	Number uint64
	// Filled is when the writer began to gather what it writes. Began and Ended are of
	// the write; they and what follows are known to Written.
	Filled, Began, Ended time.Time
	// Busy is since when the connection has had something to write without a pause,
	// and Writing how long it was writing in that time, before Began.
	Busy    time.Time
	Writing time.Duration
	// Local is what receivers keep with the write, nil at first.
	Local any
}

// Puller is an http.ResponseWriter that takes a body from a Source. This package's
// is one.
type Puller interface {
	// Pull sends what was written so far, and then what the source gives. It returns
	// when the source has ended and all is on its way (nil), with the source's error,
	// with ctx's, or with what ended the stream. The source is not called any more
	// then. The handler ends the response by returning.
	Pull(ctx context.Context, source Source) error
	// Waits says since when the source could give something that the client's windows
	// do not let through, and since when a write to the connection has been going on;
	// zero if that is not so. Any goroutine may call it.
	Waits() (window, write time.Time)
	// Locked calls use, which must wait for nothing and not call back, while nobody calls
	// Taken, with how many writes to the connection have returned.
	Locked(use func(returned uint64))
	// Wake has the source called, once for all calls before that. It waits for
	// nothing: any goroutine may call it, with any lock held, also before and after
	// Pull, when it does nothing.
	Wake()
}

var _ Puller = (*response)(nil)

// Wake implements Puller.
func (r *response) Wake() {
	if !r.stream.asked.Swap(true) {
		r.stream.conn.wake(r.stream)
	}
}

// wakes are the streams whose sources have something. Its lock is a leaf.
type wakes struct {
	sync.Mutex
	streams, spare []*stream
	closed         bool
}

func (c *conn) wake(s *stream) {
	w := &c.woken
	w.Lock()
	first := len(w.streams) == 0
	if !w.closed {
		w.streams = append(w.streams, s)
	}
	w.Unlock()
	if first {
		c.kick()
	}
}

func (w *wakes) close() {
	w.Lock()
	defer w.Unlock()
	w.closed, w.streams, w.spare = true, nil, nil
}

// collectLocked queues the streams that were woken.
func (c *conn) collectLocked() {
	w := &c.woken
	w.Lock()
	streams := w.streams
	w.streams, w.spare = w.spare[:0], nil
	w.Unlock()
	for i, s := range streams {
		streams[i] = nil
		// Before the source is asked: what comes later wakes again.
		s.asked.Store(false)
		if s.source != nil {
			s.wants = true
			c.scheduleLocked(s)
		}
	}
	w.Lock()
	w.spare = streams
	w.Unlock()
}

// Pull implements Puller.
func (r *response) Pull(ctx context.Context, source Source) error {
	if err := r.FlushError(); err != nil {
		return err
	}
	if r.isHead() || !hasBody(r.head.status) {
		return nil
	}
	s, c := r.stream, r.stream.conn
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(s.segments) > 0 && s.state != streamClosed {
		s.changed.Wait()
	}
	s.source, s.wants, s.ended = source, true, false
	s.receiver, _ = source.(Receiver)
	c.scheduleLocked(s)
	c.kick()
	for s.state != streamClosed && ctx.Err() == nil && (!s.ended || len(s.segments) > 0) {
		s.changed.Wait()
	}
	for s.asking {
		s.changed.Wait()
	}
	s.source, s.receiver = nil, nil
	switch {
	case s.state == streamClosed:
		return s.err
	case s.ended:
		return nil
	}
	return ctx.Err()
}

// askLocked asks a source, without the lock. What it gives is in a list that the
// writer uses again.
func (c *conn) askLocked(s *stream) {
	t := &c.mu.turn
	source, room, segments := s.source, s.roomLocked(), t.segments[:0]
	s.wants, s.asking = false, true
	c.mu.Unlock()
	segments, more, err := c.next(source, segments, room)
	c.mu.Lock()
	s.asking = false
	t.segments = segments
	switch {
	case s.state == streamClosed:
		s.changed.Broadcast()
		return
	case err != nil && !errors.Is(err, io.EOF):
		s.ended = true
		s.resetLocked(http2.ErrCodeInternal, err)
		return
	case err != nil:
		s.ended = true
	default:
		s.wants = more
	}
	s.segments = segments
	if !s.wants && len(segments) == 0 {
		s.hold = nil // everything was sent
	}
	if s.ended && len(segments) == 0 {
		s.changed.Broadcast()
	}
}

// next asks a source. One that panics ends its own stream alone.
func (c *conn) next(source Source, segments [][]byte, room int) (_ [][]byte, more bool, err error) {
	defer func() {
		if e := recover(); e != nil {
			trace := make([]byte, 64<<10)
			c.logf("h2: panic in the source of a stream of %v: %v\n%s", c.remote, e, trace[:runtime.Stack(trace, false)])
			err = fmt.Errorf("h2: source panicked: %v", e)
		}
	}()
	return source.Next(segments, room)
}
