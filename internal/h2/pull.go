package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/pull"
)

var _ pull.Puller = (*response)(nil)

// Wake implements pull.Puller.
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
	if !w.closed && s.wokenAt != neverWoken {
		w.streams = append(w.streams, s)
		s.wokenAt = len(w.streams)
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

// neverWoken is the place of a closed stream.
const neverWoken = -1

// remove takes out a stream that is closed, for good.
func (w *wakes) remove(s *stream) {
	w.Lock()
	defer w.Unlock()
	if at := s.wokenAt; at > 0 && !w.closed {
		last := len(w.streams)
		moved := w.streams[last-1]
		w.streams[at-1], moved.wokenAt = moved, at
		w.streams[last-1] = nil
		w.streams = w.streams[:last-1]
	}
	s.wokenAt = neverWoken
}

// collectLocked queues the streams that were woken.
func (c *conn) collectLocked() {
	w := &c.woken
	w.Lock()
	streams := w.streams
	w.streams, w.spare = w.spare[:0], nil
	w.Unlock()
	for i, s := range streams {
		streams[i], s.wokenAt = nil, 0
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

// Pull implements pull.Puller.
func (r *response) Pull(ctx context.Context, source pull.Source) error {
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
	s.receiver, _ = source.(pull.Receiver)
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
// next turn uses again.
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
func (c *conn) next(source pull.Source, segments [][]byte, room int) (_ [][]byte, more bool, err error) {
	segments, more, err = pull.Ask(source, segments, room)
	if p, ok := err.(*pull.Panic); ok {
		c.logf("h2: panic in the source of a stream of %v: %v\n%s", c.remote, p.Value, p.Trace)
		err = fmt.Errorf("h2: source panicked: %v", p.Value)
	}
	return segments, more, err
}
