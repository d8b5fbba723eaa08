package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/conn/pull"
)

var _ pull.Puller = (*response)(nil)

// Wake implements pull.Puller.
func (r *response) Wake() {
	if !r.stream.wakePending.Swap(true) {
		r.stream.conn.wake(r.stream)
	}
}

// wakeList is the list of streams whose sources were woken. Wake may be called with any
// lock held, also from within Source.Next, so the list has a lock of its own, which is a
// leaf.
type wakeList struct {
	mu struct {
		sync.Mutex
		streams []*stream
		// free is the second list: empty, or nil while collectLocked has it.
		free   []*stream
		closed bool
	}
}

// wake adds a stream to the list and queues the connection.
func (c *conn) wake(s *stream) {
	m := &c.woken.mu
	m.Lock()
	first := len(m.streams) == 0
	if !m.closed && s.wakeIndex != notWakeable {
		m.streams = append(m.streams, s)
		s.wakeIndex = len(m.streams)
	}
	m.Unlock()
	if first {
		c.kick()
	}
}

func (w *wakeList) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.closed, w.mu.streams, w.mu.free = true, nil, nil
}

// notWakeable is the wakeIndex of a closed stream.
const notWakeable = -1

// remove takes a closed stream off the list, for good: the list must not keep it alive.
func (w *wakeList) remove(s *stream) {
	m := &w.mu
	m.Lock()
	defer m.Unlock()
	if at := s.wakeIndex; at > 0 && !m.closed {
		last := len(m.streams)
		moved := m.streams[last-1]
		m.streams[at-1], moved.wakeIndex = moved, at
		m.streams[last-1] = nil
		m.streams = m.streams[:last-1]
	}
	s.wakeIndex = notWakeable
}

// collectLocked schedules the streams that were woken since the last call. It swaps two
// lists, so that Wake never waits for it.
func (c *conn) collectLocked() {
	m := &c.woken.mu
	m.Lock()
	streams := m.streams
	m.streams, m.free = m.free[:0], nil
	m.Unlock()
	for i, s := range streams {
		streams[i], s.wakeIndex = nil, 0
		// Cleared before the source is asked: a later Wake counts again.
		s.wakePending.Store(false)
		if s.source != nil {
			s.sourceReady = true
			c.scheduleLocked(s)
		}
	}
	m.Lock()
	m.free = streams
	m.Unlock()
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
	for len(s.chunks) > 0 && s.state != streamClosed {
		s.changed.Wait()
	}
	s.source, s.sourceReady, s.sourceEnded = source, true, false
	s.receiver, _ = source.(pull.Receiver)
	c.scheduleLocked(s)
	c.kick()
	for s.state != streamClosed && ctx.Err() == nil && (!s.sourceEnded || len(s.chunks) > 0) {
		s.changed.Wait()
	}
	for s.askingSource {
		s.changed.Wait()
	}
	s.source, s.receiver = nil, nil
	switch {
	case s.state == streamClosed:
		return s.err
	case s.sourceEnded:
		return nil
	}
	return ctx.Err()
}

// askLocked calls the source without the lock. Its chunks are in a list that belongs to
// the turn.
func (c *conn) askLocked(s *stream) {
	t := &c.mu.turn
	source, room, chunks := s.source, s.roomLocked(), t.chunks[:0]
	s.sourceReady, s.askingSource = false, true
	c.mu.Unlock()
	chunks, more, err := c.next(source, chunks, room)
	c.mu.Lock()
	s.askingSource = false
	t.chunks = chunks
	switch {
	case s.state == streamClosed:
		s.changed.Broadcast()
		return
	case err != nil && !errors.Is(err, io.EOF):
		s.sourceEnded = true
		s.resetLocked(http2.ErrCodeInternal, err)
		return
	case err != nil:
		s.sourceEnded = true
	default:
		s.sourceReady = more
	}
	s.chunks = chunks
	if !s.sourceReady && len(chunks) == 0 {
		s.stall = nil // the client has let everything through
	}
	if s.sourceEnded && len(chunks) == 0 {
		s.changed.Broadcast()
	}
}

// next calls the source. One that panics resets its own stream only.
func (c *conn) next(source pull.Source, chunks [][]byte, room int) (_ [][]byte, more bool, err error) {
	chunks, more, err = pull.Ask(source, chunks, room)
	if p, ok := err.(*pull.Panic); ok {
		c.logf("h2: panic in the source of a stream of %v: %v\n%s", c.remote, p.Value, p.Trace)
		err = fmt.Errorf("h2: source panicked: %v", p.Value)
	}
	return chunks, more, err
}
