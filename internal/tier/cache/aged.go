package cache

import (
	"sync"
	"sync/atomic"
	"time"
)

// agedRevisions knows which revision the cache had passed a window ago. The zero value knows none.
type agedRevisions struct {
	// newest is the result of the last note.
	newest atomic.Int64
	mu     struct {
		sync.Mutex
		marks []revisionMark
	}
}

// revisionMark is the revision that the cache had at a time.
type revisionMark struct {
	at       time.Time
	revision int64
}

// note adds the present revision, and finds the newest one that is older than window.
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

// AgedRevision returns the newest revision of which the last Expire knew that it was older than
// Config.HistoryWindow, and 0 if it knew of none. It takes the place of etcd's compaction where
// there is no etcd. A quiet resource would keep older revisions for ever, but clients expect the
// tokens of pages to expire.
func (c *Cache) AgedRevision() int64 { return c.aged.newest.Load() }
