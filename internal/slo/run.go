package slo

import (
	"context"
	"sync"
	"time"
)

// Run watches the process, and logs slow watches and late feeds, until the context
// ends.
func (x *Watches) Run(ctx context.Context) error {
	ticker := x.cfg.Clock.NewTicker(tickPeriod)
	defer ticker.Stop()
	last := x.cfg.Clock.Now()
	sampled, looked := last, last
	x.process.sample(last, x.since())
	for {
		select {
		case due := <-ticker.C():
			// Ticks that nobody took are dropped, so a late one is told by what lies
			// between it and the one before, or by its own time.
			now := x.cfg.Clock.Now()
			x.process.fired(now.Sub(x.began), max(now.Sub(due), now.Sub(last)-tickPeriod))
			last = now
			if now.Sub(sampled) >= samplePeriod {
				sampled = now
				x.process.sample(now, x.since())
			}
			if now.Sub(looked) >= lookPeriod {
				looked = now
				x.look(now)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookPeriod is how often Run looks for what is worth a word.
const lookPeriod = 10 * time.Second

// mostSlow bounds the slow watches that are told at once.
const mostSlow = 3

// look logs what is slow.
func (x *Watches) look(now time.Time) {
	slow := behindOf(x.watches(), now)
	for i := range slow[:min(mostSlow, len(slow))] {
		w := &slow[i]
		if w.BehindSeconds < x.cfg.SlowAfter.Seconds() {
			break
		}
		x.logs.say(now, func(left uint64) {
			x.cfg.Logger.Warn("Watch is behind", "resource", w.Resource, "user", w.User, "userAgent", w.UserAgent, "address", w.Address,
				"selection", w.Selection, "seconds", w.BehindSeconds, "events", w.BehindEvents, "bytes", w.BehindBytes, "waitsFor", w.State, "notLogged", left)
		})
	}
	if feed, late, err := x.feeds.latest(now); feed != nil {
		x.logs.say(now, func(left uint64) {
			x.cfg.Logger.Warn("Events are late: etcd's watch does not answer", "etcd", feed.endpoints, "for", late.Round(time.Millisecond), "err", err, "notLogged", left)
		})
	}
}

// limiter lets some words through in a minute and counts the others.
type limiter struct {
	mu   sync.Mutex
	from time.Time
	said int
	left uint64
}

// mostWords is how many lines are logged in a minute.
const mostWords = 10

// say calls use unless enough was said, with how often it was not called before.
func (l *limiter) say(now time.Time, use func(left uint64)) {
	l.mu.Lock()
	if now.Sub(l.from) >= minute {
		l.from, l.said = now, 0
	}
	if l.said++; l.said > mostWords {
		l.left++
		l.mu.Unlock()
		return
	}
	left := l.left
	l.left = 0
	l.mu.Unlock()
	use(left)
}
