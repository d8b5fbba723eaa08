package cache

import (
	"errors"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/wire/entry"
)

// An index is a tree of the resource's entries in the order of one term: a label or a
// selectable field. It is part of the resource's state, so it agrees with the tree in
// every snapshot, and an entry costs some 12 bytes in it. Each write updates all
// indexes of its resource. Nobody configures indexes: see indexAdvisor.

const (
	// maxIndexes bounds a resource's indexes, and with them the cost of a write.
	maxIndexes = 8
	// indexIdle is how long an unused index is kept.
	indexIdle = 10 * time.Minute
	// evictIdle is how long an index must be unused before a new one may replace it.
	evictIdle = time.Minute
)

// buildIndex adds an index of a term to the resource. It runs in the goroutine of the read
// that made the index worth its cost. The entries are sorted without a lock, while readers
// and the feed go on. The feed waits only while the events that came meanwhile are applied
// to the index.
func (r *Resource) buildIndex(term entry.Term) {
	s := r.state.Load()
	if findIndex(s.indexes, term) >= 0 {
		return // scans cost less than this index for what is asked
	}
	order := &indexOrder{term: term}
	began := r.cfg.Clock.Now()
	order.markUsed(began)
	r.addIndex(s, sortedIndex(s.tree, order), began)
}

// addIndex adds an index that was built of the state s, the newest one at began. It adds none
// if the log lacks changes since, or if the resource has an index of the term. Nor does it if
// indexes in use take all places. A later scan tries again.
func (r *Resource) addIndex(s *state, built Tree, began time.Time) {
	r.write.Lock()
	defer r.write.Unlock()
	current, order := r.state.Load(), built.order
	now := r.cfg.Clock.Now()
	retained, ok := indexesBeside(order, current.indexes, now)
	if !ok || current.unlogged != s.unlogged {
		return
	}
	events, err := r.log.eventsAfter(s.revision, maxUndo, func() {})
	if errors.Is(err, ErrExpired) {
		return
	}
	edit := built.Edit(nil)
	for i := range events {
		reindex(edit, events[i].Previous, events[i].Entry)
	}
	next := *current
	next.indexes = append(retained, edit.Tree())
	r.log.append(nil, nil, func() { r.state.Store(&next) }) // no events: it only publishes the state
	r.checkInvariantsLocked()
	for _, t := range current.indexes {
		if !slices.ContainsFunc(retained, func(k Tree) bool { return k.order == t.order }) {
			r.logDropped(t.order, now)
		}
	}
	r.cfg.Logger.Info("Built an index: lists that select by it look only at what they select", "resource", r.spec.GroupResource.String(),
		"term", order.term.String(), "objects", built.Len(), "seconds", r.cfg.Clock.Since(began).Seconds(), "indexes", len(next.indexes))
}

func (r *Resource) logDropped(order *indexOrder, now time.Time) {
	r.cfg.Logger.Info("Dropped an index that is not used any more",
		"resource", r.spec.GroupResource.String(), "term", order.term.String(), "unusedSeconds", order.idleTime(now).Seconds())
}

// sortedIndex makes the index of a tree's entries. It puts them in order, which leaves
// full leaves.
func sortedIndex(t Tree, order *indexOrder) Tree {
	type keyedEntry struct {
		key   string
		entry *entry.Entry
	}
	all := make([]keyedEntry, 0, t.Len())
	for e := range t.All("", "") {
		all = append(all, keyedEntry{order.key(e), e})
	}
	slices.SortFunc(all, func(a, b keyedEntry) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
	edit := Tree{order: order}.Edit(nil)
	for _, k := range all {
		edit.Put(k.entry)
	}
	return edit.Tree()
}

// reindex replaces one version of an object by the next in an index. Either version may
// be nil.
func reindex(edit *Edit, previous, entry *entry.Entry) {
	if previous != nil {
		if key := edit.order.key(previous); entry == nil || edit.order.compare(entry, key) != 0 {
			edit.Delete(key)
		}
	}
	if entry != nil {
		edit.Put(entry)
	}
}

// findIndex returns the place of the index of a term. It returns -1 if there is none.
func findIndex(indexes []Tree, term entry.Term) int {
	return slices.IndexFunc(indexes, func(t Tree) bool { return t.order.term == term })
}

// indexesBeside returns the indexes to keep beside a new one, and whether the new one may be
// added. It drops indexes that were idle for indexIdle, or for evictIdle if all places are
// taken.
func indexesBeside(added *indexOrder, indexes []Tree, now time.Time) (retained []Tree, ok bool) {
	if findIndex(indexes, added.term) >= 0 {
		return nil, false
	}
	idle := indexIdle
	if len(indexes) >= maxIndexes {
		idle = evictIdle
	}
	retained = withoutIdle(indexes, now, idle)
	return retained, len(retained) < maxIndexes
}

// withoutIdle returns the indexes that have been unused for less than idle. The result is a
// new slice, with capacity for one more index.
func withoutIdle(indexes []Tree, now time.Time, idle time.Duration) []Tree {
	retained := make([]Tree, 0, len(indexes)+1)
	for _, t := range indexes {
		if t.order.idleTime(now) < idle {
			retained = append(retained, t)
		}
	}
	return retained
}

// dropUnused removes the edits of indexes that were unused for indexIdle, so that the next
// state lacks these indexes.
func (r *Resource) dropUnused(edits []*Edit, now time.Time) []*Edit {
	return slices.DeleteFunc(edits, func(edit *Edit) bool {
		unused := edit.order.idleTime(now) >= indexIdle
		if unused {
			r.logDropped(edit.order, now)
		}
		return unused
	})
}

// Indexes returns the terms that the resource has an index of, in no order.
func (r *Resource) Indexes() []entry.Term {
	var terms []entry.Term
	for _, t := range r.state.Load().indexes {
		terms = append(terms, t.order.term)
	}
	return terms
}
