package cache

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/wire/entry"
)

// This file adds resources to a cache and removes them. A resource that is registered
// after the load adopts its keys from the unclaimed ones.

// release says when a resource was removed from the cache.
type release struct {
	revision int64
	at       time.Time
}

// Register adds a resource. If the prefix has one already, Register returns that one:
// the API versions of a kind share their stored objects. The resource holds all objects and
// events of the prefix that the cache has. Each call needs one Release.
func (c *Cache) Register(spec Spec) *Resource {
	c.write.Lock()
	defer c.write.Unlock()
	c.mu.RLock()
	r := c.mu.resources[spec.Prefix]
	c.mu.RUnlock()
	if r == nil {
		r = c.adoptLocked(spec)
		c.mu.Lock()
		c.mu.resources[spec.Prefix], c.mu.prefixes = r, nil
		c.mu.Unlock()
	}
	r.refs++
	return r
}

// Retain adds a registration to a resource. It needs one more Release.
func (c *Cache) Retain(r *Resource) {
	c.write.Lock()
	defer c.write.Unlock()
	r.refs++
}

// Release ends a registration. After the last one a resource without objects is removed. One
// with objects stays and follows etcd: a custom resource is registered again whenever its
// definition changes. So does one for which a load may have found objects already.
func (c *Cache) Release(r *Resource) {
	c.write.Lock()
	defer c.write.Unlock()
	if r.refs--; !c.write.loading {
		c.removeUnusedLocked(r)
	}
}

// removeUnusedLocked removes a resource that has neither registrations nor objects.
func (c *Cache) removeUnusedLocked(r *Resource) {
	if r.refs > 0 || r.Snapshot().Len() > 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.resources, r.spec.Prefix)
	c.mu.prefixes = nil
	c.write.released[r.spec.Prefix] = release{c.write.applied, c.cfg.Clock.Now()}
}

// Resources returns the registered resources, in no order.
func (c *Cache) Resources() []*Resource {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.mu.resources))
}

// UnclaimedSize returns the number of objects below a prefix that belong to no registered
// resource, and the length of their values.
func (c *Cache) UnclaimedSize(prefix string) (objects int, bytes int64) {
	for e := range c.unclaimed.Snapshot().All(prefix, "") {
		objects++
		bytes += int64(len(e.Value))
	}
	return objects, bytes
}

// ownerOf returns the resource of an etcd key: the one with the longest prefix of it,
// or unclaimed.
func (c *Cache) ownerOf(key string) *Resource {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for end := strings.LastIndexByte(key, '/'); end > 0; end = strings.LastIndexByte(key[:end], '/') {
		if r := c.mu.resources[key[:end+1]]; r != nil {
			return r
		}
	}
	return c.unclaimed
}

// adoptLocked makes a resource of the unclaimed keys below its prefix.
//
// It first rebuilds the objects as they were before the oldest known event, then
// applies the events. So the log reaches as far back as the log of the unclaimed keys. Watches
// of a custom resource need that to resume, for its definition is read after the load.
func (c *Cache) adoptLocked(spec Spec) *Resource {
	events, completeAfter := c.takeEventsLocked(spec.Prefix)
	if since, ok := c.write.unchanged[spec.Prefix]; ok && completeAfter == c.write.loadedAt {
		completeAfter = min(since, completeAfter)
	}
	objects := map[string]*entry.Entry{}
	var removals []change
	for e := range c.unclaimed.Snapshot().All(spec.Prefix, "") {
		objects[e.Key] = e
		removals = append(removals, change{key: e.Key, revision: e.Revision})
	}
	r := c.newResource(spec, max(completeAfter, c.write.released[spec.Prefix].revision))
	delete(c.write.released, spec.Prefix)
	if len(objects) == 0 && len(events) == 0 {
		return r
	}
	c.unclaimed.applyLocked(c, removals, false, nil)
	undo(objects, events)
	before := make([]feed.Object, 0, len(objects))
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		before = append(before, unclaimedObject(objects[key]))
	}
	after := make([]feed.Object, len(events))
	for i, e := range events {
		after[i] = feed.Object{Key: []byte(e.Key()), Revision: e.Revision, Deleted: true}
		if e.Entry != nil {
			after[i] = unclaimedObject(e.Entry)
		}
	}
	owner := func(string) *Resource { return r }
	r.applyLocked(c, c.prepareLocked(context.Background(), before, owner)[r], false, nil)
	r.applyLocked(c, c.prepareLocked(context.Background(), after, owner)[r], true, nil)
	return r
}

// undo restores objects, by key, to their versions before some events.
func undo(objects map[string]*entry.Entry, events []Event) {
	for _, e := range slices.Backward(events) {
		if e.Previous != nil {
			objects[e.Key()] = e.Previous
		} else {
			delete(objects, e.Key())
		}
	}
}

// takeEventsLocked takes the events of a prefix out of the log of unclaimed keys. It returns
// the events and the revision after which they are complete.
func (c *Cache) takeEventsLocked(prefix string) (taken []Event, completeAfter int64) {
	events, completeAfter := c.unclaimed.log.all()
	var remaining []Event
	for _, e := range events {
		if strings.HasPrefix(e.Key(), prefix) {
			taken = append(taken, e)
		} else {
			remaining = append(remaining, e)
		}
	}
	if len(taken) > 0 {
		c.unclaimed.log = c.newLog(completeAfter)
		c.unclaimed.log.append(remaining, nil, func() {})
	}
	return taken, completeAfter
}

// unclaimedObject returns an unclaimed object as the feed read it.
func unclaimedObject(e *entry.Entry) feed.Object {
	return feed.Object{Key: []byte(e.Key), Value: e.Value, Revision: e.Revision}
}
