package cache

import (
	"fmt"

	"github.com/millrace/millrace/internal/wire/entry"
)

// This file checks the invariants of the package: the order, counts and sizes of trees,
// and the order and bounds of a log. The indexes of a state must agree with its tree. The
// checks run after each batch in builds with the tag invariants, and "make invariants"
// runs the unit tests in such a build. An inconsistency is a programming error, so the
// check panics.

// checkInvariantsLocked panics if the resource's state or log is inconsistent.
func (r *Resource) checkInvariantsLocked() {
	if !invariantsEnabled {
		return
	}
	s := r.state.Load()
	if err := s.check(r.cfg.LeafObjects); err != nil {
		panic(fmt.Sprintf("invariants: state of %q at revision %d: %v", r.spec.Prefix, s.revision, err))
	}
	if got := s.tree.digest(r.spec.Prefix); got != s.digest {
		panic(fmt.Sprintf("invariants: state of %q at revision %d: digest is %v, entries have %v", r.spec.Prefix, s.revision, s.digest, got))
	}
	if err := r.log.check(); err != nil {
		panic(fmt.Sprintf("invariants: log of %q: %v", r.spec.Prefix, err))
	}
}

// check returns an error if trees or totals of the state disagree. leafLimit is the
// tree's.
func (s *state) check(leafLimit int) error {
	if err := s.tree.check(leafLimit); err != nil {
		return fmt.Errorf("tree: %w", err)
	}
	var totals state
	for e := range s.tree.All("", "") {
		totals.count(e, 1)
		if e.Revision > s.revision {
			return fmt.Errorf("entry %q has revision %d", e.Key, e.Revision)
		}
	}
	if s.bytes != totals.bytes || s.packed != totals.packed || s.opaque != totals.opaque || s.unreadable != totals.unreadable {
		return fmt.Errorf("totals are %d bytes, %d packed, %d opaque, %d unreadable; entries have %d, %d, %d, %d",
			s.bytes, s.packed, s.opaque, s.unreadable, totals.bytes, totals.packed, totals.opaque, totals.unreadable)
	}
	for _, index := range s.indexes {
		if err := s.checkIndex(index); err != nil {
			return fmt.Errorf("index of %s: %w", index.order.term, err)
		}
	}
	return nil
}

// checkIndex returns an error if an index does not hold the tree's entries.
func (s *state) checkIndex(index Tree) error {
	if err := index.check(maxLeafEntries); err != nil {
		return err
	}
	if index.Len() != s.tree.Len() {
		return fmt.Errorf("%d entries, the tree has %d", index.Len(), s.tree.Len())
	}
	for e := range s.tree.All("", "") {
		if index.Get(index.order.key(e)) != e {
			return fmt.Errorf("lacks the tree's version of %q", e.Key)
		}
	}
	return nil
}

// check returns an error if the tree's shape, order or counts are wrong. A leaf may have
// more than maxLeafBytes. It is split once for each change, and an update may enlarge an
// entry of a leaf that stays whole.
func (t Tree) check(leafLimit int) error {
	if t.root == nil {
		return nil
	}
	if t.root.count == 0 {
		return fmt.Errorf("an empty tree has a root")
	}
	c := treeCheck{tree: t, leafLimit: leafLimit, leafDepth: -1}
	return c.node(t.root, 0)
}

// treeCheck walks a tree from its smallest key to its largest.
type treeCheck struct {
	tree      Tree
	leafLimit int
	// last is the last entry that was visited. It is nil before the first entry.
	last *entry.Entry
	// leafDepth is the depth of all leaves. It is -1 before the first leaf.
	leafDepth int
}

func (c *treeCheck) node(n *node, depth int) error {
	if n.edit != nil {
		return fmt.Errorf("a node is still mutable")
	}
	if n.leaf() {
		return c.leaf(n, depth)
	}
	if len(n.children) == 0 || len(n.children) > maxChildren || len(n.firstKeys) != len(n.children) {
		return fmt.Errorf("an inner node has %d children and %d keys", len(n.children), len(n.firstKeys))
	}
	count := 0
	for i, child := range n.children {
		if i > 0 && c.tree.order.compare(c.last, n.firstKeys[i]) >= 0 {
			return fmt.Errorf("entry %q is not below %q, the first key of the next node", c.last.Key, n.firstKeys[i])
		}
		first := child
		for !first.leaf() && len(first.children) > 0 {
			first = first.children[0]
		}
		if len(first.entries) == 0 || c.tree.order.compare(first.entries[0], n.firstKeys[i]) < 0 {
			return fmt.Errorf("a node begins below its first key %q", n.firstKeys[i])
		}
		if err := c.node(child, depth+1); err != nil {
			return err
		}
		count += child.count
	}
	if count != n.count {
		return fmt.Errorf("an inner node counts %d entries, its children %d", n.count, count)
	}
	return nil
}

func (c *treeCheck) leaf(n *node, depth int) error {
	if c.leafDepth < 0 {
		c.leafDepth = depth
	}
	switch {
	case depth != c.leafDepth:
		return fmt.Errorf("leaves are at depths %d and %d", c.leafDepth, depth)
	case len(n.entries) == 0 || len(n.entries) > c.leafLimit:
		return fmt.Errorf("a leaf has %d entries, the limit is %d", len(n.entries), c.leafLimit)
	case n.count != len(n.entries):
		return fmt.Errorf("a leaf counts %d entries and has %d", n.count, len(n.entries))
	case n.memo == nil && c.tree.order == nil:
		return fmt.Errorf("a leaf of a tree ordered by key has no memo")
	case n.memo != nil && c.tree.order != nil:
		return fmt.Errorf("a leaf of an index has a memo")
	}
	for _, e := range n.entries {
		if c.last != nil && c.tree.order.compare(c.last, c.tree.order.key(e)) >= 0 {
			return fmt.Errorf("entry %q is not above %q, the entry before it", e.Key, c.last.Key)
		}
		c.last = e
	}
	return nil
}

// check returns an error if events are out of order, or the bytes are miscounted or out
// of bounds.
func (l *Log) check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var bytes, last int64
	for i := range l.mu.events {
		e := &l.mu.events[i]
		if e.Entry == nil && e.Previous == nil {
			return fmt.Errorf("event %d has neither an entry nor a previous one", i)
		}
		if e.Revision < last {
			return fmt.Errorf("event %d has revision %d, the one before it has %d", i, e.Revision, last)
		}
		last = e.Revision
		bytes += e.cost()
	}
	if bytes != l.mu.bytes {
		return fmt.Errorf("the log counts %d bytes, its events have %d", l.mu.bytes, bytes)
	}
	if len(l.mu.events) > 1 && bytes > l.bounds.maxBytes {
		return fmt.Errorf("the log has %d bytes, the bound is %d", bytes, l.bounds.maxBytes)
	}
	return nil
}
