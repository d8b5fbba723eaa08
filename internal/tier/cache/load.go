package cache

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/feed"
)

// load collects all objects at one revision, page by page, before they replace the
// states of all resources in one step. It implements feed.Loader.
type load struct {
	cache *Cache
	began time.Time
	// changes are the decoded objects of the pages so far, by their owner.
	changes map[*Resource][]change
	// newest is etcd's newest revision when the load began. It is 0 if the load is of
	// that revision.
	newest int64
	// unchanged has the revisions that Unchanged was told, by prefix. It is nil if there are
	// none.
	unchanged map[string]int64
}

// BeginLoad implements feed.Sink. Readers see the old states until End.
func (c *Cache) BeginLoad() feed.Loader {
	c.write.Lock()
	defer c.write.Unlock()
	c.write.loading = true
	return &load{cache: c, began: c.cfg.Clock.Now(), changes: map[*Resource][]change{}}
}

// Expect implements feed.Loader: events up to newest follow the load.
func (l *load) Expect(newest int64) { l.newest = newest }

// Unchanged implements feed.Loader: watches can resume from the revision since on.
func (l *load) Unchanged(prefix string, since int64) {
	if l.unchanged == nil {
		l.unchanged = map[string]int64{}
	}
	l.unchanged[prefix] = since
}

// Add implements feed.Loader. The objects are in key order.
func (l *load) Add(ctx context.Context, page []feed.Object) {
	l.cache.write.Lock()
	defer l.cache.write.Unlock()
	for r, changes := range l.cache.prepareLocked(ctx, page, l.cache.ownerOf) {
		l.changes[r] = append(l.changes[r], changes...)
	}
}

// End implements feed.Loader: it replaces the states of all resources by the loaded
// objects. A lower revision than before is of another history.
func (l *load) End(ctx context.Context, revision int64) {
	c := l.cache
	c.write.Lock()
	defer c.write.Unlock()
	l.rehomeLocked(ctx)
	if revision < c.write.applied {
		// Revisions of the old history prove nothing of the states that follow.
		c.write.applied = 0
		c.progress.restart()
	}
	took := c.cfg.Clock.Since(l.began)
	for _, r := range append(c.Resources(), c.unclaimed) {
		r.replaceLocked(l.changes[r], revision, l.changedAt(r.spec.Prefix, revision), took)
	}
	c.write.loadedAt, c.write.unchanged = revision, l.unchanged
	c.write.loading = false
	for _, r := range c.Resources() {
		c.removeUnusedLocked(r) // some were released during the load
	}
	clear(c.write.released)
	c.write.newestAtLoad = l.newest
	c.advanceLocked(revision)
}

// changedAt returns a revision since which nothing below a prefix has changed. It is the
// revision of the load if no older one is known.
func (l *load) changedAt(prefix string, revision int64) int64 {
	if since, ok := l.unchanged[prefix]; ok {
		return min(since, revision)
	}
	return revision
}

// rehomeLocked prepares all unclaimed objects again, because the resources of some may have
// been registered after their page was read.
func (l *load) rehomeLocked(ctx context.Context) {
	unclaimed := l.changes[l.cache.unclaimed]
	delete(l.changes, l.cache.unclaimed)
	objects := make([]feed.Object, len(unclaimed))
	for i, ch := range unclaimed {
		objects[i] = unclaimedObject(ch.entry)
	}
	for r, changes := range l.cache.prepareLocked(ctx, objects, l.cache.ownerOf) {
		l.changes[r] = append(l.changes[r], changes...)
	}
}
