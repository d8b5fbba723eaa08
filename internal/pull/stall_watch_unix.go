//go:build unix

package pull

import (
	"sync/atomic"
	"time"
)

// stallWatch finds out that a client takes nothing. A look at the connection each timeout
// costs less than a timer for each write that waits.
type stallWatch struct {
	timeout time.Duration
	// timerRunning says that a timer runs, or what it calls. The goroutine that sets it owns
	// queued.
	timerRunning atomic.Bool
	// progressed says that the socket has taken bytes since the last look. queued is how many
	// were in it then.
	progressed atomic.Bool
	lastQueued int
}

// noteProgress notes that the socket has taken n bytes.
func (s *stallWatch) noteProgress(n int) {
	if n > 0 && s.timerRunning.Load() {
		s.progressed.Store(true)
	}
}

// startStallWatch has a connection looked at whose write waits.
func (c *Conn) startStallWatch() {
	s := &c.stall
	if s.timeout <= 0 || s.timerRunning.Swap(true) {
		return
	}
	s.progressed.Store(true)
	time.AfterFunc(s.timeout, c.checkStall)
}

// checkStall closes the connection if its client has taken nothing since the last look.
func (c *Conn) checkStall() {
	s := &c.stall
	s.timerRunning.Store(false) // before waits is loaded, which is set before watched is
	if !c.blocked.Load() || s.timerRunning.Swap(true) {
		return
	}
	// A socket takes more only when much of it is empty: a slow client is seen before.
	var queued int
	if err := c.raw.Control(func(fd uintptr) { queued = socketQueue(int(fd)) }); err != nil {
		return // it is closed
	}
	before := s.lastQueued
	if s.lastQueued = queued; s.progressed.Swap(false) || queued < before {
		time.AfterFunc(s.timeout, c.checkStall)
		return
	}
	c.reset()
}
