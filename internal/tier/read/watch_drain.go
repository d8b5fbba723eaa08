package read

import (
	"context"
	"time"
)

const (
	// leavePause is the time between two watches that leave at a shutdown: 200 a second, which
	// is Kubernetes' rate. The time is shorter if all would take longer than Config.DrainTime.
	leavePause = 5 * time.Millisecond
	// spreadTick is the time between two turns of spread.
	spreadTick = 10 * time.Millisecond
)

// drain ends all watches, one after the other over DrainTime, each after a bookmark if its
// client allows bookmarks. A client that gets an event or a bookmark resumes where it was. A
// client whose watch ends immediately and with nothing lists again (client-go's
// VeryShortWatchError). A client whose last event is old may resume where another server no
// longer has history.
//
// At the end of DrainTime the watches of clients that do not read end too.
func (t *Tier) drain() {
	began := time.Now()
	leaving := t.watches.startLeaving()
	ctx, cancel := context.WithDeadline(context.Background(), began.Add(t.drainTime))
	defer cancel()
	if t.drainTime > 0 {
		spread(ctx, leaving, min(t.drainTime, time.Duration(len(leaving))*leavePause), (*wakeSignal).leaveConnection)
		for t.watches.len() > 0 && ctx.Err() == nil {
			wait(ctx, spreadTick)
		}
	}
	t.watches.end()
}

// Watches returns the number of watches on connections that have a way to ask the client for
// another connection.
func (t *Tier) Watches() int { return t.watches.movableLen() }

// SendAway asks clients that have some watches together to open another connection, spread
// over a time, and ends these watches after a bookmark. In front of several servers a
// balancer brings the clients elsewhere. Only HTTP/2 has a way to ask. SendAway returns at
// the end of the time or of the context.
func (t *Tier) SendAway(ctx context.Context, watches int, over time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, over)
	defer cancel()
	spread(ctx, t.watches.someConnections(watches), over, func(connection []*wakeSignal) {
		for _, s := range connection {
			s.leaveConnection()
		}
	})
}

// spread calls leave with each of some things, in equal distances over a time. At the
// context's end it calls leave with all that are left.
func spread[T any](ctx context.Context, things []T, over time.Duration, leave func(T)) {
	turns := max(1, int(over/spreadTick))
	for turn := range turns {
		n := len(things)
		for _, thing := range things[n*turn/turns : n*(turn+1)/turns] {
			leave(thing)
		}
		wait(ctx, spreadTick)
	}
}

// wait waits for pause, or for the end of the context.
func wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// leave ends the watch without an event for the reason: after a bookmark, if its client
// allows bookmarks. reached is as in watchSource.
func (s *watchSession) leave(reached int64) error {
	to := max(reached, s.startPoint.After)
	if s.query.options.AllowWatchBookmarks && to <= max(reached, s.query.route.cfg.Objects.Progress().Revision()) {
		if err := s.bookmark(to, false); err != nil {
			return err
		}
	}
	return errWatchEnded
}
