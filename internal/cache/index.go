package cache

import (
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/resource"
)

// Indexes are not configured: a resource learns them from the selectors that it
// is asked with, and forgets those that are not used. An index is a tree of
// pointers (some 12 bytes an object), part of the resource's state, so it
// agrees with every snapshot.

const (
	// maxIndexes bounds a resource's indexes, and with them the work of a write.
	maxIndexes = 8
	// maxDemands bounds what is remembered about terms without an index.
	maxDemands = 64
	// minScan is the number of entries that are not worth an index.
	minScan = 512
	// indexIdle is how long an index is kept unused, and evictIdle how long it is
	// safe from being replaced by another.
	indexIdle = 10 * time.Minute
	evictIdle = time.Minute
)

// learning watches which terms make readers scan. It is shared by a resource and
// its snapshots.
type learning struct {
	clock clock.PassiveClock
	// from is the least size of a scan that counts.
	from int
	// build makes an index of a term. It is called by the reader that pays for it.
	build func(resource.Term)

	mu struct {
		sync.Mutex
		// demand is how many entries were scanned for a term so far.
		demand   map[resource.Term]int
		building bool
	}
}

// touch notes that an index was used. A nil learning belongs to no resource.
func (l *learning) touch(o *order) {
	if l != nil {
		o.touch(l.clock.Now())
	}
}

// scanned notes a walk through entries for a query. The second full one makes an
// index of the term that selects most narrowly by its kind.
func (l *learning) scanned(t Tree, q *Query, entries int) {
	if l == nil || entries < l.from || q.Limit > 0 && q.Limit < l.from {
		return
	}
	term, ok := mostPromising(q)
	if !ok || !l.due(term, entries, 2*t.Len()) {
		return
	}
	l.build(term)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.building = false
}

// due adds to a term's demand and reports whether the caller is to build.
func (l *learning) due(term resource.Term, entries, enough int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.demand == nil || len(l.mu.demand) >= maxDemands {
		l.mu.demand = map[resource.Term]int{}
	}
	l.mu.demand[term] += entries
	if l.mu.building || l.mu.demand[term] < enough {
		return false
	}
	delete(l.mu.demand, term)
	l.mu.building = true
	return true
}

// mostPromising is the term of a requirement for values, else for presence,
// else for absence of values.
func mostPromising(q *Query) (term resource.Term, ok bool) {
	best := 0
	for _, w := range wants(q) {
		rank := 1
		if !w.negate {
			rank = 2
			if w.groups[0] != absentGroup+groupEnd {
				rank = 3
			}
		}
		if rank > best {
			best, term = rank, w.term
		}
	}
	return term, best > 0
}

// learnIndex adds an index of a term to the resource. Readers and the feed go on
// meanwhile; at the end the feed waits for a moment.
func (r *Resource) learnIndex(term resource.Term) {
	o := &order{term: term}
	began := r.learning.clock.Now()
	o.touch(began)
	s := r.state.Load()
	built := sorted(s.tree, o)
	r.writing.Lock()
	defer r.writing.Unlock()
	now := r.state.Load()
	moment := r.learning.clock.Now()
	kept, ok := roomFor(o, now.indexes, moment)
	if !ok {
		return
	}
	events, err := r.log.later(s.revision, func() {})
	if errors.Is(err, ErrExpired) {
		return // a busy moment: the next scan tries again
	}
	edit := built.Edit(nil)
	for i := range events {
		reindex(edit, events[i].Previous, events[i].Entry)
	}
	next := *now
	next.indexes = append(kept, edit.Tree())
	r.log.append(nil, nil, func() { r.state.Store(&next) })
	for _, t := range now.indexes {
		if !slices.ContainsFunc(kept, func(k Tree) bool { return k.by == t.by }) {
			r.tellDropped(t.by, moment)
		}
	}
	r.logger.Info("Built an index: lists that select by it look at what they select alone", "resource", r.spec.GroupResource.String(),
		"term", term.String(), "objects", built.Len(), "seconds", r.learning.clock.Since(began).Seconds(), "indexes", len(next.indexes))
}

func (r *Resource) tellDropped(o *order, now time.Time) {
	r.logger.Info("Dropped an index that is not used any more",
		"resource", r.spec.GroupResource.String(), "term", o.term.String(), "unusedSeconds", o.idle(now).Seconds())
}

// sorted makes the index of a tree's entries. Sorted ones fill its leaves.
func sorted(t Tree, o *order) Tree {
	type keyed struct {
		key   string
		entry *resource.Entry
	}
	all := make([]keyed, 0, t.Len())
	for e := range t.All("", "") {
		all = append(all, keyed{o.key(e), e})
	}
	slices.SortFunc(all, func(a, b keyed) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
	edit := Tree{by: o}.Edit(nil)
	for _, k := range all {
		edit.Put(k.entry)
	}
	return edit.Tree()
}

// reindex moves an object in an index. Either version may be nil.
func reindex(edit *Edit, previous, entry *resource.Entry) {
	if previous != nil {
		if key := edit.by.key(previous); entry == nil || edit.by.compare(entry, key) != 0 {
			edit.Delete(key)
		}
	}
	if entry != nil {
		edit.Put(entry)
	}
}

// roomFor returns the indexes that stay beside a new one of o, and whether there
// is room for it. They go sooner when all places are taken.
func roomFor(o *order, indexes []Tree, now time.Time) (kept []Tree, ok bool) {
	if slices.ContainsFunc(indexes, func(t Tree) bool { return t.by.term == o.term }) {
		return nil, false
	}
	idle := indexIdle
	if len(indexes) >= maxIndexes {
		idle = evictIdle
	}
	kept = withoutIdle(indexes, now, idle)
	return kept, len(kept) < maxIndexes
}

// withoutIdle returns the indexes that were used lately.
func withoutIdle(indexes []Tree, now time.Time, idle time.Duration) []Tree {
	kept := make([]Tree, 0, len(indexes)+1)
	for _, t := range indexes {
		if t.by.idle(now) < idle {
			kept = append(kept, t)
		}
	}
	return kept
}

// withoutUnused ends the edits of indexes that nobody has used for long.
func (r *Resource) withoutUnused(edits []*Edit, now time.Time) []*Edit {
	return slices.DeleteFunc(edits, func(x *Edit) bool {
		unused := x.by.idle(now) >= indexIdle
		if unused {
			r.tellDropped(x.by, now)
		}
		return unused
	})
}

// Indexes are the terms that the resource has an index of, in no order.
func (r *Resource) Indexes() []resource.Term {
	var terms []resource.Term
	for _, t := range r.state.Load().indexes {
		terms = append(terms, t.by.term)
	}
	return terms
}
