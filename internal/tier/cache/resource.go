package cache

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/wire/entry"
)

// Spec describes a resource to the cache.
type Spec struct {
	// Prefix begins the resource's keys in etcd. It ends with a slash.
	Prefix string
	// GroupResource names the resource in metrics and errors.
	GroupResource schema.GroupResource
	// Open decrypts a stored value. Nil means that values are stored in plain. Several
	// goroutines call it at a time.
	Open func(ctx context.Context, key string, value []byte) ([]byte, error)
	// Describe decodes an entry and sets its Attributes and Altered. Nil sets neither.
	// Several goroutines call it at a time.
	Describe func(*entry.Entry) error
}

// Resource is one kind of object in the cache. All API versions and storages of the
// kind share it.
//
// Its contents are one immutable state, which an atomic pointer refers to. A writer builds
// the next state beside the current one and publishes it together with the events that lead
// to it, under the log's lock. So readers need no lock, and a watch that has read the log
// to its end is exactly as new as the state. A change costs a copy of the path to its leaf,
// in the tree and in each index (docs/bench/cache.md).
type Resource struct {
	spec     Spec
	cfg      *Config
	progress *Progress
	log      *Log
	state    atomic.Pointer[state]
	// advisor decides which indexes to build. It is nil if the Spec has no Describe.
	advisor *indexAdvisor
	// write is the cache's lock of writers.
	write *sync.Mutex
	// packing compresses values. Nil means that they are not compressed: the resource is small
	// or unclaimed, or no dictionary could be made.
	packing atomic.Pointer[entry.Packing]
	// decrypted says that Open has once changed a value, or failed to decrypt one. It never
	// becomes false again.
	decrypted atomic.Bool
	// refs is the number of registrations. The lock write guards it.
	refs int
}

// Snapshot is a resource at one revision. It never changes.
type Snapshot struct {
	Tree
	indexes []Tree
	advisor *indexAdvisor
	// Revision is the snapshot's revision. The tree holds exactly what etcd holds at it.
	Revision int64
	// Opaque is the number of opaque entries. Unreadable is how many of them have an error.
	Opaque, Unreadable int
	// Bytes is the length of all values, decrypted. Packed is their length in memory.
	Bytes, Packed int64
}

// Snapshot returns the newest state. Later calls return the same or a larger revision, unless
// the source got another history or Suspend or Unload was called.
func (r *Resource) Snapshot() Snapshot {
	// The order matters. A state that is loaded after the progress holds everything up
	// to it. A newer state is complete up to its own last event.
	finished := r.progress.Revision()
	s := r.state.Load()
	return r.snapshotOf(s, max(finished, s.revision))
}

// snapshotOf returns the snapshot of a state that is complete up to revision.
func (r *Resource) snapshotOf(s *state, revision int64) Snapshot {
	return Snapshot{Tree: s.tree, indexes: s.indexes, advisor: r.advisor, Revision: revision, Opaque: s.opaque, Unreadable: s.unreadable, Bytes: s.bytes, Packed: s.packed}
}

// Log returns the resource's recent events.
func (r *Resource) Log() *Log { return r.log }

// LastChange returns the revision of the resource's newest change or load. It is 0 if there
// was neither, or none since Cache.Free. LastChange takes no lock.
func (r *Resource) LastChange() int64 { return r.state.Load().revision }

// GroupResource names the resource.
func (r *Resource) GroupResource() schema.GroupResource { return r.spec.GroupResource }

// Prefix begins the resource's keys in etcd.
func (r *Resource) Prefix() string { return r.spec.Prefix }

// applyLocked publishes a new state with some changes. With record, the changes become
// events of the log. arrival may be nil.
func (r *Resource) applyLocked(c *Cache, changes []change, record bool, arrival *entry.Arrival) {
	newest := r.state.Load()
	edit := newest.edit(r.cfg)
	edit.indexes = r.dropUnused(edit.indexes, r.cfg.Clock.Now())
	next, events := edit.applyAll(r.spec.Prefix, changes)
	if !record {
		events = nil
		next.unlogged++
	}
	next = r.packGrownLocked(c, next)
	r.log.append(events, arrival, func() { r.state.Store(next) })
	r.checkInvariantsLocked()
}

// replaceLocked publishes a state of the loaded objects, and resets the log, which is then complete
// after changedAt. took is as in Follower.Forgotten. Readers see the old state or the whole new
// one.
func (r *Resource) replaceLocked(loaded []change, revision, changedAt int64, took time.Duration) {
	old := r.state.Load()
	for run := range old.tree.Runs("") {
		run.Memo.Retire(r.cfg.Budget)
	}
	empty := state{revision: revision, unlogged: old.unlogged + 1}
	for _, index := range old.indexes {
		empty.indexes = append(empty.indexes, Tree{order: index.order})
	}
	next, _ := empty.edit(r.cfg).applyAll(r.spec.Prefix, loaded)
	r.log.reset(changedAt, took, func() { r.state.Store(next) })
	r.checkInvariantsLocked()
}

// At returns the resource at an older revision: the newest tree with the later events
// undone. That takes one step for each later event, and nothing is kept for it
// beforehand. The cache must have reached the revision. ErrExpired says that the events are
// incomplete or more than maxUndo. etcd may still have the revision.
func (r *Resource) At(revision int64) (Snapshot, error) {
	var newest *state
	events, err := r.log.eventsAfter(revision, maxUndo, func() { newest = r.state.Load() })
	if err != nil {
		return Snapshot{}, err
	}
	edit := newest.editDetached()
	for _, e := range slices.Backward(events) {
		edit.apply(change{key: e.Key(), entry: e.Previous})
	}
	return r.snapshotOf(edit.finish(), revision), nil
}

// MarkUndecodable replaces an entry that turned out to be undecodable after its attributes
// had been read by one with the error why. Later reads then know before they begin an answer.
// MarkUndecodable does nothing unless the entry is in the newest state and has no error yet.
func (r *Resource) MarkUndecodable(c *Cache, e *entry.Entry, why error) {
	r.write.Lock()
	defer r.write.Unlock()
	newest := r.state.Load()
	if newest.tree.Get(e.Key) != e || e.Err != nil {
		return
	}
	undecodable := e.Clone()
	undecodable.Err, undecodable.Attributes = why, nil
	edit := newest.edit(r.cfg)
	edit.apply(change{key: e.Key, entry: undecodable, revision: e.Revision})
	next := edit.finish()
	next.unlogged++
	r.log.append(nil, nil, func() { r.state.Store(next) })
	r.checkInvariantsLocked()
	c.logUnreadable(r, undecodable)
}

// prepare makes an entry of a stored value: it decrypts the value, reads its attributes, and
// packs it if the resource has a dictionary. An error or a panic of Spec's functions is the
// entry's Err.
func (r *Resource) prepare(ctx context.Context, key string, value []byte, revision int64) *entry.Entry {
	e := &entry.Entry{Key: key[len(r.spec.Prefix):], Revision: revision, Value: value}
	e.Err = r.cfg.Panics.Guard(panics.Decode, func() error { return r.openAndDescribe(ctx, key, e) })
	if e.Err != nil {
		// Describe may have set these before it failed.
		e.Attributes, e.Altered = nil, false
		return e
	}
	e.Pack(r.packing.Load())
	return e
}

// openAndDescribe decrypts an entry's value and sets its attributes.
func (r *Resource) openAndDescribe(ctx context.Context, key string, e *entry.Entry) (err error) {
	if r.spec.Open != nil {
		stored := e.Value
		if e.Value, err = r.spec.Open(ctx, key, stored); err != nil {
			r.decrypted.Store(true)
			return err
		}
		if !r.decrypted.Load() && !bytes.Equal(stored, e.Value) {
			r.decrypted.Store(true)
		}
	}
	if r.spec.Describe != nil {
		return r.spec.Describe(e)
	}
	return nil
}

// UnreadableEntries yields the entries that have an Err, in the order of their keys. It walks
// the whole tree, so callers look at Snapshot.Unreadable first.
func (s *Snapshot) UnreadableEntries() iter.Seq[*entry.Entry] {
	return func(yield func(*entry.Entry) bool) {
		for e := range s.All("", "") {
			if e.Err != nil && !yield(e) {
				return
			}
		}
	}
}
