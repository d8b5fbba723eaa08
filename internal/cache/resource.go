package cache

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/resource"
	"github.com/millrace/millrace/internal/slo"
)

// Spec introduces a resource to the cache.
type Spec struct {
	// Prefix is the beginning of the resource's keys in etcd, with a slash at
	// the end.
	Prefix string
	// GroupResource names the resource in metrics and errors.
	GroupResource schema.GroupResource
	// Open decrypts a stored value. Nil means that values are stored in plain.
	// It is called from several goroutines.
	Open func(ctx context.Context, key string, value []byte) ([]byte, error)
	// Describe decodes an entry to set its attributes and whether it is
	// irregular. Nil leaves them out. It is called from several goroutines.
	Describe func(*resource.Entry) error
}

// Resource is one kind of object in the cache. It is shared by all API versions
// and storages of the kind.
type Resource struct {
	spec     Spec
	progress *Progress
	log      *Log
	state    atomic.Pointer[state]
	// learning turns selectors into indexes.
	learning *learning
	// logger receives indexes that come and go.
	logger *slog.Logger
	// writing is the cache's.
	writing *sync.Mutex
	// packing compresses values, nil as long as there are few.
	packing atomic.Pointer[resource.Packing]
	// refs counts registrations. It is guarded by Cache.writing.
	refs int
}

// state is what readers see, all of one moment.
type state struct {
	tree Tree
	// indexes hold the same entries as tree in other orders.
	indexes []Tree
	// revision is that of the newest event in the tree.
	revision int64
	// opaque counts entries that are not plain.
	opaque int
	// bytes is the length of all values, packed what they take as they are held.
	bytes, packed int64
}

// Snapshot is a resource at one revision.
type Snapshot struct {
	Tree
	indexes  []Tree
	learning *learning
	// Revision is the snapshot's: the tree holds exactly what etcd holds at it.
	Revision int64
	// Opaque is the number of entries that are not plain.
	Opaque int
	// Bytes is the length of all values, decrypted, and Packed what they take in
	// memory.
	Bytes, Packed int64
}

// Snapshot returns the newest state. Every later one has the same or a larger revision.
func (r *Resource) Snapshot() Snapshot {
	// The order matters: what the feed has finished is in the state that is
	// loaded after it. A newer state is complete up to its own last event.
	finished := r.progress.Revision()
	s := r.state.Load()
	return r.snapshot(s, max(finished, s.revision))
}

func (r *Resource) snapshot(s *state, revision int64) Snapshot {
	return Snapshot{Tree: s.tree, indexes: s.indexes, learning: r.learning, Revision: revision, Opaque: s.opaque, Bytes: s.bytes, Packed: s.packed}
}

// Log is the resource's recent events.
func (r *Resource) Log() *Log { return r.log }

// GroupResource names the resource.
func (r *Resource) GroupResource() schema.GroupResource { return r.spec.GroupResource }

// Prefix is the beginning of the resource's keys in etcd.
func (r *Resource) Prefix() string { return r.spec.Prefix }

// change is one step of an update: an entry to put, or a key to delete.
type change struct {
	key      string
	entry    *resource.Entry
	revision int64
}

// apply makes a new state. Readers of the log see the changes if record is true.
// arrival may be nil. Cache.writing is held.
func (r *Resource) apply(c *Cache, changes []change, record bool, arrival *slo.Arrival) {
	now := r.state.Load()
	x := now.edit(&c.cfg)
	x.indexes = r.withoutUnused(x.indexes, c.cfg.Clock.Now())
	next, events := x.change(changes)
	if !record {
		events = nil
	}
	next = r.grown(c, next)
	r.log.append(events, arrival, func() { r.state.Store(next) })
}

// replace makes a new state of what a load found and forgets the events before.
// Readers see the old state or the whole new one. Cache.writing is held.
func (r *Resource) replace(c *Cache, loaded []change, revision int64) {
	old := r.state.Load()
	for span := range old.tree.Spans("") {
		span.Memo.Retire(c.cfg.Budget)
	}
	empty := state{revision: revision}
	for _, index := range old.indexes {
		empty.indexes = append(empty.indexes, Tree{by: index.by})
	}
	next, _ := empty.edit(&c.cfg).change(loaded)
	r.log.reset(revision, func() { r.state.Store(next) })
}

// transition is a state on its way to the next.
type transition struct {
	next    state
	tree    *Edit
	indexes []*Edit
}

// edit begins a change whose state replaces s.
func (s *state) edit(cfg *Config) *transition {
	x := &transition{next: *s, tree: s.tree.Edit(cfg.Budget)}
	x.tree.leaf = cfg.LeafObjects
	for _, index := range s.indexes {
		x.indexes = append(x.indexes, index.Edit(nil))
	}
	return x
}

// aside begins a change whose state stands beside s.
func (s *state) aside() *transition {
	x := &transition{next: *s, tree: s.tree.aside()}
	for _, index := range s.indexes {
		x.indexes = append(x.indexes, index.aside())
	}
	return x
}

// change does some changes, and returns the state behind them and what they mean
// to readers of the log.
func (x *transition) change(changes []change) (*state, []Event) {
	events := make([]Event, 0, len(changes))
	for _, ch := range changes {
		previous := x.step(ch)
		if ch.entry != nil || previous != nil {
			events = append(events, Event{Entry: ch.entry, Previous: previous, Revision: ch.revision})
		}
	}
	return x.end(), events
}

// end returns the state that was made.
func (x *transition) end() *state {
	x.next.tree = x.tree.Tree()
	x.next.indexes = make([]Tree, len(x.indexes))
	for i, edit := range x.indexes {
		x.next.indexes[i] = edit.Tree()
	}
	return &x.next
}

// step does one change and counts it. It returns the entry before.
func (x *transition) step(ch change) (previous *resource.Entry) {
	if ch.entry != nil {
		previous = x.tree.Put(ch.entry)
	} else {
		previous = x.tree.Delete(ch.key)
	}
	for _, edit := range x.indexes {
		reindex(edit, previous, ch.entry)
	}
	x.next.count(ch.entry, 1)
	x.next.count(previous, -1)
	x.next.revision = max(x.next.revision, ch.revision)
	return previous
}

// count adds an entry, or takes it away with times = -1. The entry may be nil.
func (s *state) count(e *resource.Entry, times int) {
	if e == nil {
		return
	}
	s.bytes += int64(times * e.Size())
	s.packed += int64(times * len(e.Value))
	if e.Opaque() {
		s.opaque += times
	}
}

// At returns the resource as it was at a revision that the cache has reached:
// the newest tree with the later events undone. It costs nothing before it is
// asked for, and then one step for each of these events. ErrExpired says that
// they are not all there or too many; etcd may still know.
func (r *Resource) At(revision int64) (Snapshot, error) {
	var now *state
	events, err := r.log.later(revision, func() { now = r.state.Load() })
	if err != nil {
		return Snapshot{}, err
	}
	x := now.aside()
	for _, e := range slices.Backward(events) {
		x.step(change{key: e.Key(), entry: e.Previous})
	}
	return r.snapshot(x.end(), revision), nil
}

// MarkUndecodable notes that an entry of the newest state, whose attributes were read
// without decoding it, cannot be decoded. Readers that come after know it before
// they begin an answer.
func (r *Resource) MarkUndecodable(c *Cache, e *resource.Entry, why error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	now := r.state.Load()
	if now.tree.Get(e.Key) != e || e.Err != nil {
		return
	}
	condemned := *e
	condemned.Err, condemned.Attributes = why, nil
	x := now.edit(&c.cfg)
	x.step(change{key: e.Key, entry: &condemned, revision: e.Revision})
	next := x.end()
	r.log.append(nil, nil, func() { r.state.Store(next) })
	c.tellUnreadable(r, &condemned)
}

// prepare decrypts a value and reads its attributes.
func (r *Resource) prepare(ctx context.Context, key string, value []byte, revision int64) *resource.Entry {
	e := &resource.Entry{Key: key[len(r.spec.Prefix):], Revision: revision, Value: value}
	if r.spec.Open != nil {
		if e.Value, e.Err = r.spec.Open(ctx, key, value); e.Err != nil {
			return e
		}
	}
	if r.spec.Describe != nil {
		e.Err = r.spec.Describe(e)
	}
	if e.Err == nil {
		e.Pack(r.packing.Load())
	}
	return e
}
