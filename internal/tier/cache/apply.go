package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/wire/entry"
)

// This file applies the feed's events.

// Received implements feed.Sink: the events of the next Apply arrived at that time.
func (c *Cache) Received(at time.Time) {
	c.write.Lock()
	defer c.write.Unlock()
	c.write.received = at
}

// Apply implements feed.Sink. The events come from one watch response, in order.
func (c *Cache) Apply(ctx context.Context, events []feed.Object) {
	c.write.Lock()
	defer c.write.Unlock()
	var newest int64
	for i := range events {
		newest = max(newest, events[i].Revision)
	}
	for r, changes := range c.prepareLocked(ctx, events, c.ownerOf) {
		var arrival *entry.Arrival
		if !c.write.received.IsZero() {
			arrival = &entry.Arrival{Entered: c.write.received}
		}
		r.applyLocked(c, changes, true, arrival)
	}
	c.write.received = time.Time{}
	c.advanceLocked(newest)
}

// Progressed implements feed.Sink: all events up to revision have been applied.
func (c *Cache) Progressed(revision int64) {
	c.write.Lock()
	defer c.write.Unlock()
	c.advanceLocked(revision)
}

// advanceLocked records that all states are complete up to revision.
//
// While the cache is not loaded, Progress waits for newestAtLoad. The load may be of an old
// revision. Reads must not see its states until events have made them as new as etcd was when
// the load began.
func (c *Cache) advanceLocked(revision int64) {
	c.write.applied = max(c.write.applied, revision)
	if !c.loaded.Load() && c.write.applied < c.write.newestAtLoad {
		return
	}
	c.loaded.Store(true)
	c.progress.advance(c.write.applied)
}

// prepareLocked decrypts, decodes and packs objects of all resources in parallel. It returns
// the changes by owner, in the order of the objects. Several goroutines call owner at a time.
func (c *Cache) prepareLocked(ctx context.Context, objects []feed.Object, owner func(string) *Resource) map[*Resource][]change {
	changes := make([]change, len(objects))
	owners := make([]*Resource, len(objects))
	prepare := func(i int) {
		o := &objects[i]
		key := string(o.Key)
		r := owner(key)
		owners[i] = r
		changes[i] = change{key: key[len(r.spec.Prefix):], revision: o.Revision}
		if !o.Deleted {
			changes[i].entry = r.prepare(ctx, key, o.Value, o.Revision)
		}
	}
	c.parallel(len(objects), prepare)
	byOwner := map[*Resource][]change{}
	for i, r := range owners {
		byOwner[r] = append(byOwner[r], changes[i])
		if e := changes[i].entry; e != nil && e.Err != nil {
			c.logUnreadable(r, e)
		}
	}
	for r, own := range byOwner {
		r.packNewLocked(c, own)
	}
	return byOwner
}

func (c *Cache) logUnreadable(r *Resource, e *entry.Entry) {
	c.cfg.Logger.Error("Stored object cannot be read; reads of its resource go to etcd until it is repaired or deleted",
		"resource", r.spec.GroupResource.String(), "key", r.spec.Prefix+e.Key, "revision", e.Revision, "err", e.Err)
}

// minParallel is the least number of objects for which a goroutine saves more than it
// costs.
const minParallel = 4

// parallel calls do for each i below n, from up to cfg.Workers goroutines.
func (c *Cache) parallel(n int, do func(int)) {
	workers := min(c.cfg.Workers, n/minParallel)
	if workers < 2 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	done.Wait()
}
