package cache

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/feed"
)

// Reload replaces the objects of one resource by the objects that etcd has, while the feed
// goes on. It is for a resource whose objects have turned out to be wrong. All positions in the
// resource's log expire. Readers see the old state or the whole new one.
type Reload struct {
	cache    *Cache
	resource *Resource
	began    time.Time
	changes  []change
}

// BeginReload begins to reload a resource.
func (c *Cache) BeginReload(r *Resource) *Reload {
	return &Reload{cache: c, resource: r, began: c.cfg.Clock.Now()}
}

// Add takes a page of objects below the resource's prefix. All pages are of one revision. Add
// leaves out objects of other resources.
func (l *Reload) Add(ctx context.Context, page []feed.Object) {
	c := l.cache
	c.write.Lock()
	defer c.write.Unlock()
	l.changes = append(l.changes, c.prepareLocked(ctx, page, c.ownerOf)[l.resource]...)
}

// End publishes the objects of the pages, which are of revision, with the later events of the
// log applied. It fails if the cache has not reached the revision, or if the log lacks some of
// these events or has more than maxDigestUndo.
func (l *Reload) End(revision int64) error {
	c, r := l.cache, l.resource
	c.write.Lock()
	defer c.write.Unlock()
	if revision > c.write.applied {
		return fmt.Errorf("reload %s at revision %d: %w", r.spec.GroupResource, revision, ErrNotReached)
	}
	events, err := r.log.eventsAfter(revision, maxDigestUndo, func() {})
	if err != nil {
		return fmt.Errorf("reload %s at revision %d: %w", r.spec.GroupResource, revision, err)
	}
	for _, e := range events {
		l.changes = append(l.changes, change{key: e.Key(), entry: e.Entry, revision: e.Revision})
	}
	if r == c.unclaimed { // some objects may have been adopted since their page was read
		l.changes = slices.DeleteFunc(l.changes, func(ch change) bool { return c.ownerOf(ch.key) != r })
	}
	// Watches may have been sent what is wrong, so none resumes from before.
	r.replaceLocked(l.changes, c.write.applied, c.write.applied, c.cfg.Clock.Since(l.began))
	return nil
}
