package h2

import (
	"sync/atomic"
	"time"
)

// carried are bytes of one receiver in a buffer.
type carried struct {
	stream   *stream
	receiver Receiver
	hold     *hold
	bytes    int
}

// busy is the time since a connection last had nothing to write.
type busy struct {
	since   time.Time
	writing time.Duration
	// write is when the write began that is going on, in nanoseconds since 1970; 0 for
	// none.
	write atomic.Int64
}

// memory is how far back a connection's business is remembered in full.
const memory = 2 * time.Second

// wrote adds a write. What is long ago counts half, so that a connection that never
// rests tells how it has been lately.
func (b *busy) wrote(began, ended time.Time) {
	b.writing += ended.Sub(began)
	if past := ended.Sub(b.since); past > memory {
		b.since, b.writing = b.since.Add(past/2), b.writing/2
	}
}

// rest ends the time.
func (b *busy) rest() { b.since, b.writing = time.Time{}, 0 }

// hold is the time since a stream's client let it send everything.
type hold struct {
	since time.Time
	// closed is how long its windows were shut before from, in nanoseconds. from is
	// zero while they are open.
	closed atomic.Int64
	from   time.Time
}

// past is closed. It is asked for while the lock is not held.
func (h *hold) past() time.Duration { return time.Duration(h.closed.Load()) }

// shutLocked notes that the stream could send and may not.
func (s *stream) shutLocked() {
	if s.hold == nil {
		s.hold = &hold{since: time.Now()}
		s.hold.from = s.hold.since
	} else if s.hold.from.IsZero() {
		s.hold.from = time.Now()
	}
}

// open notes that it may.
func (h *hold) open() {
	if !h.from.IsZero() {
		h.closed.Add(int64(time.Since(h.from)))
		h.from = time.Time{}
	}
}

// fillsLocked notes when the buffer was begun that a receiver's bytes come in.
func (c *conn) fillsLocked(s *stream) {
	if t := &c.mu.turn; s.receiver != nil && t.filled.IsZero() {
		t.filled = time.Now()
	}
}

// noteLocked notes bytes of a source in the buffer.
func (c *conn) noteLocked(s *stream, n int) {
	if s.receiver == nil || n == 0 {
		return
	}
	c.fillsLocked(s)
	t := &c.mu.turn
	s.carried += n
	if last := len(t.carried) - 1; last >= 0 && t.carried[last].stream == s {
		t.carried[last].bytes += n
		return
	}
	t.carried = append(t.carried, carried{s, s.receiver, s.hold, n})
}

// carryLocked writes a buffer, without the lock, and tells the receivers of what is
// in it. It takes the time three times for a buffer, and not at all for one without.
func (c *conn) carryLocked(batch []byte) {
	t := &c.mu.turn
	told := Sent{Filled: t.filled}
	if len(t.carried) > 0 {
		told.Began = time.Now()
		if t.busy.since.IsZero() {
			t.busy.since = t.filled
		}
		told.Busy, told.Writing = t.busy.since, t.busy.writing
		t.busy.write.Store(told.Began.UnixNano())
	}
	c.mu.Unlock()
	written := c.send(batch)
	if len(t.carried) > 0 {
		told.Ended = time.Now()
		t.busy.write.Store(0)
		for i := range t.carried {
			if x := &t.carried[i]; written {
				told.Bytes, told.Held, told.Closed = x.bytes, time.Time{}, 0
				told.Last = i == len(t.carried)-1
				if x.hold != nil {
					told.Held, told.Closed = x.hold.since, x.hold.past()
				}
				x.receiver.Sent(&told)
			}
		}
	}
	c.mu.Lock()
	if len(t.carried) == 0 {
		return
	}
	t.busy.wrote(told.Began, told.Ended)
	for i := range t.carried {
		s := t.carried[i].stream
		if s.carried = 0; s.ended && len(s.segments) == 0 {
			s.changed.Broadcast()
		}
	}
	clear(t.carried)
	t.carried = t.carried[:0]
}

// Waits implements Puller.
func (r *response) Waits() (window, write time.Time) {
	s, c := r.stream, r.stream.conn
	if at := c.mu.turn.busy.write.Load(); at != 0 {
		write = time.Unix(0, at)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.hold != nil && s.source != nil {
		window = s.hold.from
	}
	return window, write
}
