package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/resource"
	"github.com/millrace/millrace/internal/slo"
	"github.com/millrace/millrace/internal/store"
)

// The methods of this file are called by the feed, one at a time.

// BeginLoad begins to read everything anew, because the events in between are
// unknown. Readers keep the old states until the load's End.
func (c *Cache) BeginLoad() store.Loader {
	return &load{cache: c, changes: map[*Resource][]change{}}
}

// load collects the objects of one range over the whole prefix.
type load struct {
	cache   *Cache
	changes map[*Resource][]change
	newest  int64
}

// Expect says that events up to a revision follow the load.
func (l *load) Expect(newest int64) { l.newest = newest }

// Add takes a page of objects, in key order.
func (l *load) Add(ctx context.Context, kvs []*mvccpb.KeyValue) {
	l.cache.writing.Lock()
	defer l.cache.writing.Unlock()
	for r, changes := range l.cache.prepareAll(ctx, kvs, l.cache.lookup) {
		l.changes[r] = append(l.changes[r], changes...)
	}
}

// End puts the loaded objects in place of all others, at a revision.
func (l *load) End(ctx context.Context, revision int64) {
	c := l.cache
	c.writing.Lock()
	defer c.writing.Unlock()
	l.rehome(ctx)
	for _, r := range append(c.Resources(), c.unclaimed) {
		r.replace(c, l.changes[r], revision)
	}
	clear(c.released)
	c.newest = l.newest
	c.advance(revision)
}

// advance notes that the states hold everything up to a revision. Before the first
// load is over nobody may know: a load of the past is not to be read until the
// events after it have made it as new as etcd was when it began. writing is held.
func (c *Cache) advance(revision int64) {
	c.applied = max(c.applied, revision)
	if !c.loaded.Load() && c.applied < c.newest {
		return
	}
	c.loaded.Store(true)
	c.progress.advance(c.applied)
}

// rehome hands objects that were unclaimed when their page was read to the
// resources that were registered since. writing is held.
func (l *load) rehome(ctx context.Context) {
	unclaimed := l.changes[l.cache.unclaimed]
	delete(l.changes, l.cache.unclaimed)
	kvs := make([]*mvccpb.KeyValue, len(unclaimed))
	for i, ch := range unclaimed {
		kvs[i] = unclaimedKV(ch.entry)
	}
	for r, changes := range l.cache.prepareAll(ctx, kvs, l.cache.lookup) {
		l.changes[r] = append(l.changes[r], changes...)
	}
}

// Received says when the events came that Apply takes next.
func (c *Cache) Received(at time.Time) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.received = at
}

// Apply takes the events of one watch response, in order.
func (c *Cache) Apply(ctx context.Context, events []*clientv3.Event) {
	c.writing.Lock()
	defer c.writing.Unlock()
	var newest int64
	kvs := make([]*mvccpb.KeyValue, len(events))
	for i, e := range events {
		kvs[i] = e.Kv
		newest = max(newest, e.Kv.ModRevision)
	}
	for r, changes := range c.prepareAll(ctx, kvs, c.lookup) {
		var arrival *slo.Arrival
		if !c.received.IsZero() {
			arrival = &slo.Arrival{Entered: c.received}
		}
		r.apply(c, changes, true, arrival)
	}
	c.received = time.Time{}
	c.advance(newest)
}

// Progressed says that all events up to a revision have been applied.
func (c *Cache) Progressed(revision int64) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.advance(revision)
}

// prepareAll turns key-values into changes, decoding in parallel over all
// resources, and keeps the order within each.
func (c *Cache) prepareAll(ctx context.Context, kvs []*mvccpb.KeyValue, owner func(string) *Resource) map[*Resource][]change {
	changes := make([]change, len(kvs))
	owners := make([]*Resource, len(kvs))
	prepare := func(i int) {
		kv := kvs[i]
		key := string(kv.Key)
		r := owner(key)
		owners[i] = r
		changes[i] = change{key: key[len(r.spec.Prefix):], revision: kv.ModRevision}
		if !deleted(kv) {
			changes[i].entry = r.prepare(ctx, key, kv.Value, kv.ModRevision)
		}
	}
	c.parallel(len(kvs), prepare)
	byOwner := map[*Resource][]change{}
	for i, r := range owners {
		byOwner[r] = append(byOwner[r], changes[i])
		if e := changes[i].entry; e != nil && e.Err != nil {
			c.tellUnreadable(r, e)
		}
	}
	for r, own := range byOwner {
		r.learn(c, own)
	}
	return byOwner
}

func (c *Cache) tellUnreadable(r *Resource, e *resource.Entry) {
	c.cfg.Logger.Error("Stored object cannot be read; reads of its resource go to etcd until it is repaired or deleted",
		"resource", r.spec.GroupResource.String(), "key", r.spec.Prefix+e.Key, "revision", e.Revision, "err", e.Err)
}

// deleted tells a tombstone from an object: its version is 0 (etcd's kv.proto).
func deleted(kv *mvccpb.KeyValue) bool { return kv.Version == 0 }

// inline is the number of objects below which goroutines cost more than they save.
const inline = 4

func (c *Cache) parallel(n int, do func(int)) {
	workers := min(c.cfg.Workers, n/inline)
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
