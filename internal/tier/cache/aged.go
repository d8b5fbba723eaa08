package cache

import (
	"sync"
	"sync/atomic"
	"time"
)

// agedRevisions knows which revision the cache had reached a window ago. The zero value knows
// none.
type agedRevisions struct {
	// newest is what the last note found. It is 0 if no note has found a revision yet.
	newest atomic.Int64
	mu     struct {
		sync.Mutex
		// marks are younger than the window, the oldest first.
		marks []revisionMark
	}
}

// revisionMark is the revision that the cache had at a time.
type revisionMark struct {
	at       time.Time
	revision int64
}

// note adds the present revision, and finds the newest that is at least as old as window.
func (a *agedRevisions) note(now time.Time, revision int64, window time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	marks := append(a.mu.marks, revisionMark{now, revision})
	for len(marks) > 0 && now.Sub(marks[0].at) >= window {
		a.newest.Store(marks[0].revision)
		marks = marks[1:]
	}
	a.mu.marks = append(a.mu.marks[:0], marks...)
}

// AgedRevision returns the newest revision that Expire has found to be as old as
// Config.HistoryWindow, or 0 if there is none. It takes the place of etcd's compaction where
// there is no etcd. A quiet resource would keep older revisions for ever, but clients expect the
// tokens of pages to expire.
func (c *Cache) AgedRevision() int64 { return c.aged.newest.Load() }
