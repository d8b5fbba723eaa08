package cache

import (
	"slices"
	"sync/atomic"
	"time"
)

// bounds are what all logs of a cache keep. An event stays while it is young, in bytes
// that each log has for itself. The last events of a log stay however old they are: a
// client of a quiet resource resumes after hours. For these all logs share some bytes,
// in equal parts but for what logs with less do not need; so those with few events lose
// none because others have many. It costs a walk over all logs for each sweep, which
// divides the bytes anew.
type bounds struct {
	// window is how long an event is young, and maxBytes bounds a log.
	window   time.Duration
	maxBytes int64
	// lasting is how many events of a log stay however old.
	lasting int
	// share is the most bytes of a log that keeps old events.
	share atomic.Int64
}

// oldShare is the part of a log's bytes that old events of all logs take.
const oldShare = 8

func newBounds(cfg *Config) *bounds {
	b := &bounds{window: cfg.HistoryWindow, maxBytes: cfg.HistoryBytes, lasting: max(1, cfg.HistoryEvents)}
	b.share.Store(b.oldBytes())
	return b
}

// oldBytes bounds the logs that keep old events, together.
func (b *bounds) oldBytes() int64 { return b.maxBytes / oldShare }

// divide makes shares of what logs would keep with all of their last events.
func (b *bounds) divide(wanted []int64) {
	slices.Sort(wanted)
	left := b.oldBytes()
	for i, bytes := range wanted {
		if equal := left / int64(len(wanted)-i); bytes > equal {
			b.share.Store(equal)
			return
		}
		left -= bytes
	}
	b.share.Store(b.oldBytes())
}

// trimLocked drops what is out of bounds, but for the newest event.
func (l *Log) trimLocked(now time.Time) {
	drop := 0
	for drop < len(l.mu.events)-1 && !l.keepsLocked(drop, now) {
		e := &l.mu.events[drop]
		l.mu.bytes -= e.cost()
		l.mu.since = e.Revision
		*e = timedEvent{}
		drop++
	}
	l.mu.events = l.mu.events[drop:]
	l.mu.first += int64(drop)
}

// keepsLocked reports whether an event is within bounds when those before it are gone.
func (l *Log) keepsLocked(i int, now time.Time) bool {
	switch b := l.bounds; {
	case l.mu.bytes > b.maxBytes:
		return false
	case now.Sub(l.mu.events[i].at) <= b.window:
		return true
	default:
		return len(l.mu.events)-i <= b.lasting && l.mu.bytes <= b.share.Load()
	}
}

// wants is how many bytes the log takes with all of its last events, if one of them is
// old; of the newest alone it is 0, for that stays anyway.
func (l *Log) wants() (bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.mu.events[max(0, len(l.mu.events)-l.bounds.lasting):]
	if len(last) < 2 || l.clock.Since(last[0].at) <= l.bounds.window {
		return 0
	}
	for i := range last {
		bytes += last[i].cost()
	}
	return bytes
}

// expire drops what is out of bounds, with the room that it took, and returns the
// bytes. The follower hears of it with the next event, and readers when they read on.
func (l *Log) expire() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.mu.bytes
	l.trimLocked(l.clock.Now())
	if l.mu.bytes < before {
		l.mu.events = slices.Clone(l.mu.events)
	}
	return before - l.mu.bytes
}

// Expire drops events that are out of bounds, and returns their bytes. Logs drop them
// when others come; this is for those of resources that have fallen quiet.
func (c *Cache) Expire() (bytes int64) {
	c.writing.Lock()
	logs := []*Log{c.unclaimed.log}
	c.writing.Unlock()
	for _, r := range c.Resources() {
		logs = append(logs, r.log)
	}
	wanted := make([]int64, len(logs))
	for i, l := range logs {
		wanted[i] = l.wants()
	}
	c.bounds.divide(wanted)
	for _, l := range logs {
		bytes += l.expire()
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	for prefix, r := range c.released {
		if c.cfg.Clock.Since(r.at) > c.cfg.HistoryWindow {
			c.unclaimed.log.begin(r.revision)
			delete(c.released, prefix)
		}
	}
	if len(c.released) == 0 {
		c.released = map[string]release{} // maps do not give room back
	}
	return bytes
}
