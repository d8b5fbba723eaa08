package cache

import (
	"slices"
	"sync/atomic"
	"time"
)

// bounds say which events the logs of a cache keep.
//
// An event that is younger than the window stays as long as its log is within maxBytes.
// The last events of a log may stay however old they are, for a client of a quiet
// resource may resume after hours. All logs together have a fixed number of bytes for that.
// They are divided equally, and what a log does not need is divided among the others. So a
// log with few events loses none because others have many.
//
// Each Cache.Expire divides the bytes again, which takes a walk over all logs.
type bounds struct {
	// window is the age up to which an event is young.
	window time.Duration
	// maxBytes bounds the cost of one log's events, in bytes.
	maxBytes int64
	// lasting is the number of a log's last events that may stay when they are old. It is
	// at least 1.
	lasting int
	// share is the size of a log, with its young events, up to which it keeps old ones. It
	// is in bytes.
	share atomic.Int64
}

// oldShare is the fraction of maxBytes that is for old events: an eighth of one log's
// bytes, for all logs together.
const oldShare = 8

func newBounds(cfg *Config) *bounds {
	b := &bounds{window: cfg.HistoryWindow, maxBytes: cfg.HistoryBytes, lasting: max(1, cfg.HistoryEvents)}
	b.share.Store(b.oldBytes())
	return b
}

// oldBytes bounds the size of all logs that keep old events.
func (b *bounds) oldBytes() int64 { return b.maxBytes / oldShare }

// divide sets the share. demands are the sizes that the logs would have with all of
// their last events. divide sorts them.
func (b *bounds) divide(demands []int64) {
	slices.Sort(demands)
	undivided := b.oldBytes()
	for i, bytes := range demands {
		if equal := undivided / int64(len(demands)-i); bytes > equal {
			b.share.Store(equal)
			return
		}
		undivided -= bytes
	}
	b.share.Store(b.oldBytes())
}

// trimLocked drops events that are out of bounds. It never drops the newest event.
func (l *Log) trimLocked(now time.Time) {
	drop := 0
	for drop < len(l.mu.events)-1 && !l.withinBoundsLocked(drop, now) {
		e := &l.mu.events[drop]
		l.mu.bytes -= e.cost()
		l.mu.completeAfter = e.Revision
		*e = timedEvent{}
		drop++
	}
	l.mu.events = l.mu.events[drop:]
	l.mu.first += int64(drop)
}

// withinBoundsLocked reports whether the i-th event is within bounds once all events
// before it are dropped.
func (l *Log) withinBoundsLocked(i int, now time.Time) bool {
	switch b := l.bounds; {
	case l.mu.bytes > b.maxBytes:
		return false
	case now.Sub(l.mu.events[i].at) <= b.window:
		return true
	default:
		return len(l.mu.events)-i <= b.lasting && l.mu.bytes <= b.share.Load()
	}
}

// oldDemand returns the cost of the log's last events in bytes if one of them is old, else 0.
// A single event does not count, for the newest event always stays.
func (l *Log) oldDemand() (bytes int64) {
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

// expire drops events that are out of bounds and frees their memory. It returns their cost in
// bytes. The follower learns of it at the next Appended, a reader at its next Read or Get.
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

// Expire drops events that are out of bounds in all logs and returns their cost in bytes. A
// log also drops events when new ones come; Expire is for resources that have become quiet. It
// also advances AgedRevision.
func (c *Cache) Expire() (bytes int64) {
	c.aged.note(c.cfg.Clock.Now(), c.progress.Revision(), c.cfg.HistoryWindow)
	c.write.Lock()
	logs := []*Log{c.unclaimed.log}
	c.write.Unlock()
	for _, r := range c.Resources() {
		logs = append(logs, r.log)
	}
	demands := make([]int64, len(logs))
	for i, l := range logs {
		demands[i] = l.oldDemand()
	}
	c.bounds.divide(demands)
	for _, l := range logs {
		bytes += l.expire()
	}
	c.write.Lock()
	defer c.write.Unlock()
	for prefix, r := range c.write.released {
		if c.cfg.Clock.Since(r.at) > c.cfg.HistoryWindow {
			c.unclaimed.log.raiseCompleteAfter(r.revision)
			delete(c.write.released, prefix)
		}
	}
	if len(c.write.released) == 0 {
		c.write.released = map[string]release{} // a map does not shrink
	}
	return bytes
}
