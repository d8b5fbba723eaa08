package slo

import (
	"context"
	"time"
)

const (
	// checkPeriod is the time between two checks for slow watches and late feeds.
	checkPeriod = 10 * time.Second
	// maxSlowLogged bounds the slow watches of one check.
	maxSlowLogged = 3
)

// Run measures whether the process runs when it should, and logs slow watches and late
// feeds, until the context ends.
func (set *Watches) Run(ctx context.Context) error {
	ticker := set.cfg.Clock.NewTicker(tickPeriod)
	defer ticker.Stop()
	last := set.cfg.Clock.Now()
	sampled, checked := last, last
	set.process.sample(last, set.offset())
	for {
		select {
		case due := <-ticker.C():
			// A ticker drops ticks while this goroutine does not run. So the delay is the
			// larger of the tick's own delay and of the gap between two ticks.
			now := set.cfg.Clock.Now()
			set.process.timerFired(now.Sub(set.startedAt), max(now.Sub(due), now.Sub(last)-tickPeriod))
			last = now
			if now.Sub(sampled) >= samplePeriod {
				sampled = now
				set.process.sample(now, set.offset())
			}
			if now.Sub(checked) >= checkPeriod {
				checked = now
				set.logSlow(now)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// logSlow logs slow watches, and the feed that is late most.
func (set *Watches) logSlow(now time.Time) {
	slow := watchesBehind(set.watches(), now)
	for i := range slow[:min(maxSlowLogged, len(slow))] {
		w := &slow[i]
		if w.BehindSeconds < set.cfg.SlowAfter.Seconds() {
			break
		}
		set.logThrottle.do(now, func(dropped uint64) {
			set.cfg.Logger.Warn("Watch is behind", "resource", w.Resource, "user", w.User, "userAgent", w.UserAgent, "address", w.Address,
				"selection", w.Selection, "seconds", w.BehindSeconds, "events", w.BehindEvents, "bytes", w.BehindBytes, "waitsFor", w.State, "notLogged", dropped)
		})
	}
	if feed, late, err := set.feeds.mostLate(now); feed != nil {
		set.logThrottle.do(now, func(dropped uint64) {
			set.cfg.Logger.Warn("Events are late: etcd's watch does not answer", "etcd", feed.endpoints, "for", late.Round(time.Millisecond), "err", err, "notLogged", dropped)
		})
	}
}
