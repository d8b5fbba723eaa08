package read

import (
	"context"
	"sync/atomic"
	"time"
)

// signal is what wakes an idle watch: events, the end of its request or of the server,
// or its own schedule.
type signal struct {
	// notify has the watch's source asked. It waits for nothing.
	notify func()
	// ended says that the watch is to end, due that its schedule has something.
	ended, due atomic.Bool
	timer      *time.Timer
	unwatch    func() bool
	endings    []*ending
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
