package cache

import "github.com/millrace/millrace/internal/wire/entry"

// state is the contents of a resource at one moment. A published state is immutable.
type state struct {
	tree Tree
	// indexes hold the same entries as tree, in other orders.
	indexes []Tree
	// revision is that of the newest change, or of the load that made the state if there was
	// no change since.
	revision int64
	// opaque is the number of opaque entries. unreadable is how many of them have an error.
	opaque, unreadable int
	// bytes is the length of all values. packed is their length in memory.
	bytes, packed int64
	// unlogged counts the times that the tree was changed without events in the log, or loaded.
	// An index that is built of an older state cannot catch up with such changes.
	unlogged int64
	// digest is the digest of the tree's entries. States that At makes do not keep it.
	digest Digest
}

// change is one step of an update: an entry to put, or with a nil entry a key to
// delete. The key has no prefix of the resource.
type change struct {
	key      string
	entry    *entry.Entry
	revision int64
}

// stateEdit makes a new state out of an old one. It is used by one goroutine.
type stateEdit struct {
	next    state
	tree    *Edit
	indexes []*Edit
}

// edit begins an edit whose state replaces s.
func (s *state) edit(cfg *Config) *stateEdit {
	edit := &stateEdit{next: *s, tree: s.tree.Edit(cfg.Budget)}
	edit.tree.leafLimit = cfg.LeafObjects
	for _, index := range s.indexes {
		edit.indexes = append(edit.indexes, index.Edit(nil))
	}
	return edit
}

// editDetached begins an edit whose state stands beside s, as Tree.editDetached does.
func (s *state) editDetached() *stateEdit {
	edit := &stateEdit{next: *s, tree: s.tree.editDetached()}
	for _, index := range s.indexes {
		edit.indexes = append(edit.indexes, index.editDetached())
	}
	return edit
}

// applyAll applies changes and finishes the edit. It returns the new state, and the changes
// as events. Deletions of absent keys make no event. prefix is the resource's.
func (edit *stateEdit) applyAll(prefix string, changes []change) (*state, []Event) {
	events := make([]Event, 0, len(changes))
	for _, ch := range changes {
		previous := edit.apply(ch)
		edit.next.digest = edit.next.digest.Add(objectDigest(prefix, ch.entry)).subtract(objectDigest(prefix, previous))
		if ch.entry != nil || previous != nil {
			events = append(events, Event{Entry: ch.entry, Previous: previous, Revision: ch.revision})
		}
	}
	return edit.finish(), events
}

// finish returns the new state. The edit must not be used again.
func (edit *stateEdit) finish() *state {
	edit.next.tree = edit.tree.Tree()
	edit.next.indexes = make([]Tree, len(edit.indexes))
	for i, index := range edit.indexes {
		edit.next.indexes[i] = index.Tree()
	}
	return &edit.next
}

// apply applies one change and returns the entry that the change replaced, or nil. It does
// not update the digest.
func (edit *stateEdit) apply(ch change) (previous *entry.Entry) {
	if ch.entry != nil {
		previous = edit.tree.Put(ch.entry)
	} else {
		previous = edit.tree.Delete(ch.key)
	}
	for _, index := range edit.indexes {
		reindex(index, previous, ch.entry)
	}
	edit.next.count(ch.entry, 1)
	edit.next.count(previous, -1)
	edit.next.revision = max(edit.next.revision, ch.revision)
	return previous
}

// count adds an entry to the totals, or subtracts it with times = -1. A nil entry
// counts for nothing.
func (s *state) count(e *entry.Entry, times int) {
	if e == nil {
		return
	}
	s.bytes += int64(times * e.Size())
	s.packed += int64(times * len(e.Value))
	if e.Opaque() {
		s.opaque += times
	}
	if e.Err != nil {
		s.unreadable += times
	}
}
