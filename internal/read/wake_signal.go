package read

import (
	"context"
	"sync/atomic"
	"time"
)

// wakeSignal is what wakes an idle watch: events, the end of its request or of the server,
// or its own schedule.
type wakeSignal struct {
	// notify has the watch's source asked. It waits for nothing.
	notify func()
	// ended says that the watch is to end, due that its schedule has something.
	ended, due atomic.Bool
	timer      *time.Timer
	unwatch    func() bool
	sets       []*watchSet
}

func (s *wakeSignal) end() {
	s.ended.Store(true)
	s.notify()
}

func (s *wakeSignal) setDue() {
	s.due.Store(true)
	s.notify()
}

// start begins to look for what ends the watch, and for its schedule.
func (s *wakeSignal) start(ctx context.Context, pause time.Duration, endings ...*watchSet) {
	s.timer = time.AfterFunc(pause, s.setDue)
	s.unwatch = context.AfterFunc(ctx, s.end)
	s.sets = endings
	for _, e := range endings {
		e.add(s)
	}
}

// stop lets go of what start has taken.
func (s *wakeSignal) stop() {
	s.timer.Stop()
	s.unwatch()
	for _, e := range s.sets {
		e.remove(s)
	}
}
