//go:build unix

package pull

import (
	"sync/atomic"
	"time"
)

// stallWatch finds out that a client takes no bytes. It looks at a connection once in
// each timeout while a write blocks. That is cheaper than a timer for each write that
// blocks.
type stallWatch struct {
	timeout time.Duration
	// timerRunning is set while the timer runs or its function executes. The goroutine
	// that sets it owns lastQueued.
	timerRunning atomic.Bool
	// progressed says that the socket has taken bytes since the last look.
	progressed atomic.Bool
	// lastQueued is the length of the socket's queue at that look.
	lastQueued int
}

// noteProgress records that the socket has taken n bytes.
func (s *stallWatch) noteProgress(n int) {
	if n > 0 && s.timerRunning.Load() {
		s.progressed.Store(true)
	}
}

// startStallWatch starts the timer, unless it runs already.
func (c *Conn) startStallWatch() {
	s := &c.stall
	if s.timeout <= 0 || s.timerRunning.Swap(true) {
		return
	}
	s.progressed.Store(true)
	time.AfterFunc(s.timeout, c.checkStall)
}

// checkStall resets the connection if its client has taken nothing since the last look.
func (c *Conn) checkStall() {
	s := &c.stall
	s.timerRunning.Store(false) // before blocked is loaded: noteBlocked sets blocked, then timerRunning
	if !c.blocked.Load() || s.timerRunning.Swap(true) {
		return
	}
	// A socket takes more only once much of it is empty. A shorter queue shows a slow client earlier.
	var queued int
	if err := c.raw.Control(func(fd uintptr) { queued = socketQueue(int(fd)) }); err != nil {
		return // the connection is closed
	}
	before := s.lastQueued
	if s.lastQueued = queued; s.progressed.Swap(false) || queued < before {
		time.AfterFunc(s.timeout, c.checkStall)
		return
	}
	c.reset()
}
