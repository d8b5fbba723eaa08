package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/mutation"
	"github.com/millrace/millrace/internal/wire/entry"
)

// This file applies the feed's events. The feed calls Received, Apply and Progressed
// from one goroutine at a time.

// Received implements etcdfeed.Sink: the events of the next Apply arrived at a time.
func (c *Cache) Received(at time.Time) {
	c.write.Lock()
	defer c.write.Unlock()
	c.write.received = at
}

// Apply implements etcdfeed.Sink. The events are those of one watch response, in order.
func (c *Cache) Apply(ctx context.Context, events []*clientv3.Event) {
	c.write.Lock()
	defer c.write.Unlock()
	var newest int64
	if last := len(events) - 1; mutation.Sometimes(mutation.EventLost) && events[last].Kv.Version > 3 {
		events = events[:last]
	}
	kvs := make([]*mvccpb.KeyValue, len(events))
	for i, e := range events {
		kvs[i] = e.Kv
		newest = max(newest, e.Kv.ModRevision)
	}
	if mutation.On(mutation.ProgressEarly) {
		c.advanceLocked(newest)
		mutation.Pause(mutation.ProgressEarly)
	}
	for r, changes := range c.prepareLocked(ctx, kvs, c.ownerOf) {
		var arrival *entry.Arrival
		if !c.write.received.IsZero() {
			arrival = &entry.Arrival{Entered: c.write.received}
		}
		r.applyLocked(c, changes, true, arrival)
	}
	c.write.received = time.Time{}
	c.advanceLocked(newest)
}

// Progressed implements etcdfeed.Sink: all events up to a revision have been applied.
func (c *Cache) Progressed(revision int64) {
	c.write.Lock()
	defer c.write.Unlock()
	c.advanceLocked(revision)
}

// advanceLocked notes that all states are complete up to a revision.
//
// Progress does not move before the first load is caught up. That load may be of an old
// revision, and reads must not see it until its events have made the states as new as
// etcd was when the load began.
func (c *Cache) advanceLocked(revision int64) {
	c.write.applied = max(c.write.applied, revision)
	if !c.loaded.Load() && c.write.applied < c.write.newestAtLoad {
		return
	}
	c.loaded.Store(true)
	c.progress.advance(c.write.applied)
}

// prepareLocked decrypts and decodes key-values in parallel over all resources. It
// returns the changes by owner, in their order.
func (c *Cache) prepareLocked(ctx context.Context, kvs []*mvccpb.KeyValue, owner func(string) *Resource) map[*Resource][]change {
	changes := make([]change, len(kvs))
	owners := make([]*Resource, len(kvs))
	prepare := func(i int) {
		kv := kvs[i]
		key := string(kv.Key)
		r := owner(key)
		owners[i] = r
		changes[i] = change{key: key[len(r.spec.Prefix):], revision: kv.ModRevision}
		if !isTombstone(kv) {
			changes[i].entry = r.prepare(ctx, key, kv.Value, kv.ModRevision)
		}
	}
	c.parallel(len(kvs), prepare)
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

// isTombstone reports whether a key-value is a deletion: its version is 0 (etcd's
// kv.proto).
func isTombstone(kv *mvccpb.KeyValue) bool { return kv.Version == 0 }

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
