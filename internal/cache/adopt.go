package cache

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/millrace/millrace/internal/resource"
)

// adopt makes a resource of what belongs to it among the unclaimed: its objects
// as they were before the events that are still known, and then these events. So
// its log reaches as far back as if it had been registered before the load, and
// watches of a custom resource, whose definition is read after the load, resume.
// writing is held.
func (c *Cache) adopt(spec Spec) *Resource {
	events, since := c.takeEvents(spec.Prefix)
	objects := map[string]*resource.Entry{}
	var gone []change
	for e := range c.unclaimed.Snapshot().All(spec.Prefix, "") {
		objects[e.Key] = e
		gone = append(gone, change{key: e.Key, revision: e.Revision})
	}
	r := c.newResource(spec, max(since, c.released[spec.Prefix].revision))
	delete(c.released, spec.Prefix)
	if len(objects) == 0 && len(events) == 0 {
		return r
	}
	c.unclaimed.apply(c, gone, false, nil)
	undo(objects, events)
	before := make([]*mvccpb.KeyValue, 0, len(objects))
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		before = append(before, unclaimedKV(objects[key]))
	}
	after := make([]*mvccpb.KeyValue, len(events))
	for i, e := range events {
		// One without a version is a tombstone.
		after[i] = &mvccpb.KeyValue{Key: []byte(e.Key()), ModRevision: e.Revision}
		if e.Entry != nil {
			after[i] = unclaimedKV(e.Entry)
		}
	}
	own := func(string) *Resource { return r }
	r.apply(c, c.prepareAll(context.Background(), before, own)[r], false, nil)
	r.apply(c, c.prepareAll(context.Background(), after, own)[r], true, nil)
	return r
}

// undo makes of objects, by their keys, what they were before some events.
func undo(objects map[string]*resource.Entry, events []Event) {
	for _, e := range slices.Backward(events) {
		if e.Previous != nil {
			objects[e.Key()] = e.Previous
		} else {
			delete(objects, e.Key())
		}
	}
}

// takeEvents takes the events of a prefix out of the unclaimed log, and returns
// the revision from which on they are complete. writing is held.
func (c *Cache) takeEvents(prefix string) (taken []Event, since int64) {
	log := c.unclaimed.log
	_, since, _ = log.Since(0)
	// Nobody else reads or writes this log: there is no error.
	at, _, _ := log.Since(since)
	var rest []Event
	buf := make([]Event, 256)
	for {
		n, next, _, _ := log.Read(at, buf)
		if n == 0 {
			break
		}
		for _, e := range buf[:n] {
			if strings.HasPrefix(e.Key(), prefix) {
				taken = append(taken, e)
			} else {
				rest = append(rest, e)
			}
		}
		at = next
	}
	if len(taken) > 0 {
		c.unclaimed.log = c.newLog(since)
		c.unclaimed.log.append(rest, nil, func() {})
	}
	return taken, since
}

// unclaimedKV is an unclaimed object as the feed read it.
func unclaimedKV(e *resource.Entry) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: []byte(e.Key), Value: e.Value, ModRevision: e.Revision, Version: 1}
}
