package read

import (
	"context"
	"sync/atomic"
	"time"
)

// wakeSignal wakes an idle watch when its request, its route or the server ends. It also
// wakes a watch that must leave, or whose schedule has something to do. The cursor wakes the
// watch for events without setting anything here.
type wakeSignal struct {
	// notify makes a worker ask the watch's source. It does not block.
	notify func()
	// ended says that the watch must end. due says that its schedule has something to do.
	ended, due atomic.Bool
	// leaving says that the watch must end once it has sent its events and a bookmark.
	leaving atomic.Bool
	// goAway asks the client to open no more streams on the watch's connection, which
	// connection names. It is nil if there is no way to ask, or no use in asking.
	goAway     func()
	connection string
	// timer calls setDue when the schedule is due. stopContext stops the wait for the
	// request's end. sets are the sets that may end the watch. start sets all three.
	timer       *time.Timer
	stopContext func() bool
	sets        []*watchSet
}

// end makes the watch end immediately.
func (s *wakeSignal) end() {
	s.ended.Store(true)
	s.notify()
}

// leaveConnection makes the watch leave. It first asks the client for another connection. The
// client must read that before the end of the watch, or it would open the next watch here.
func (s *wakeSignal) leaveConnection() {
	if s.goAway != nil {
		s.goAway()
	}
	s.leaving.Store(true)
	s.setDue()
}

func (s *wakeSignal) setDue() {
	s.due.Store(true)
	s.notify()
}

// start begins to wait for the end of ctx and of the sets, and for the schedule, whose first
// time is after pause.
func (s *wakeSignal) start(ctx context.Context, pause time.Duration, sets ...*watchSet) {
	s.timer = time.AfterFunc(pause, s.setDue)
	s.stopContext = context.AfterFunc(ctx, s.end)
	s.sets = sets
	for _, e := range sets {
		e.add(s)
	}
}

// stop undoes start.
func (s *wakeSignal) stop() {
	s.timer.Stop()
	s.stopContext()
	for _, e := range s.sets {
		e.remove(s)
	}
}
