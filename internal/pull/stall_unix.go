//go:build unix

package pull

import (
	"sync/atomic"
	"time"
)

// stall finds out that a client takes nothing. A look at the connection each timeout
// costs less than a timer for each write that waits.
type stall struct {
	timeout time.Duration
	// watched says that a timer runs, or what it calls. The goroutine that sets it owns
	// queued.
	watched atomic.Bool
	// taken says that the socket has taken bytes since the last look. queued is how many
	// were in it then.
	taken  atomic.Bool
	queued int
}

// moved notes that the socket has taken n bytes.
func (s *stall) moved(n int) {
	if n > 0 && s.watched.Load() {
		s.taken.Store(true)
	}
}

// watchStall has a connection looked at whose write waits.
func (c *Conn) watchStall() {
	s := &c.stall
	if s.timeout <= 0 || s.watched.Swap(true) {
		return
	}
	s.taken.Store(true)
	time.AfterFunc(s.timeout, c.endStall)
}

// endStall closes the connection if its client has taken nothing since the last look.
func (c *Conn) endStall() {
	s := &c.stall
	s.watched.Store(false) // before waits is loaded, which is set before watched is
	if !c.waits.Load() || s.watched.Swap(true) {
		return
	}
	// A socket takes more only when much of it is empty: a slow client is seen before.
	var queued int
	if err := c.raw.Control(func(fd uintptr) { queued = socketQueue(int(fd)) }); err != nil {
		return // it is closed
	}
	before := s.queued
	if s.queued = queued; s.taken.Swap(false) || queued < before {
		time.AfterFunc(s.timeout, c.endStall)
		return
	}
	c.reset()
}
