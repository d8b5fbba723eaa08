package read

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/h2"
)

// signal is the one thing that an idle watch waits for: events, the end of its
// request or of the server, or its own schedule. A select over as many channels
// would cost a fifth of what an event costs.
type signal struct {
	// notify wakes the watch. It does not block: it sends to wake, or wakes the
	// writer of the connection.
	notify func()
	wake   chan struct{}
	// ended says that the watch is to end, due that its schedule has something.
	ended, due atomic.Bool
	timer      *time.Timer
	unwatch    func() bool
	endings    []*ending
}

// prepare makes the signal one for a puller, or with nil one to wait for.
func (s *signal) prepare(p h2.Puller) {
	if p != nil {
		s.notify = p.Wake
		return
	}
	s.wake = make(chan struct{}, 1)
	s.notify = func() {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func (s *signal) end() {
	s.ended.Store(true)
	s.notify()
}

func (s *signal) ring() {
	s.due.Store(true)
	s.notify()
}

// start begins to look for what ends the watch, and for its schedule.
func (s *signal) start(ctx context.Context, pause time.Duration, endings ...*ending) {
	s.timer = time.AfterFunc(pause, s.ring)
	s.unwatch = context.AfterFunc(ctx, s.end)
	s.endings = endings
	for _, e := range endings {
		e.add(s)
	}
}

// stop lets go of what start has taken.
func (s *signal) stop() {
	s.timer.Stop()
	s.unwatch()
	for _, e := range s.endings {
		e.remove(s)
	}
}
