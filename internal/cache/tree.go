package cache

import (
	"iter"
	"slices"
	"sort"

	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/resource"
)

// Tree is an ordered map from key to entry. A Tree value never changes: an Edit
// copies the path from the root to each leaf that it touches and shares the
// rest, so that any number of readers can hold any number of versions.
//
// It is a B+tree of our own rather than a library's because its leaves are
// what wire bytes hang on: a leaf holds neighbours that are sent and compressed
// together, and is replaced exactly when one of them changes.
//
// The zero value is an empty tree.
type Tree struct{ root *node }

// node is a leaf or an inner node. Those of a finished tree are immutable but
// for the memo, which synchronizes itself.
type node struct {
	// entries and memo are a leaf's.
	entries []*resource.Entry
	memo    *encode.Memo
	// kids are an inner node's; firsts[i] is not above any key in kids[i], and
	// above all in kids[i-1].
	kids   []*node
	firsts []string
	count  int
	// edit may change the node in place: it made it and is not finished.
	edit *Edit
}

const (
	// maxLeaf trades what one change costs (a leaf is compressed anew) against
	// how well neighbours compress together and how many writes a LIST takes.
	maxLeaf = 48
	maxKids = 64
)

func (n *node) leaf() bool { return n.kids == nil }

// Len is the number of entries.
func (t Tree) Len() int {
	if t.root == nil {
		return 0
	}
	return t.root.count
}

// Get returns the entry of a key, or nil.
func (t Tree) Get(key string) *resource.Entry {
	n := t.root
	if n == nil {
		return nil
	}
	for !n.leaf() {
		n = n.kids[n.kidFor(key)]
	}
	if i, ok := n.find(key); ok {
		return n.entries[i]
	}
	return nil
}

// Count is the number of entries whose key begins with prefix.
func (t Tree) Count(prefix string) int { return t.CountFrom(prefix, "") }

// CountFrom is the number of entries that All yields.
func (t Tree) CountFrom(prefix, from string) int {
	if prefix == "" && from == "" {
		return t.Len()
	}
	count := 0
	for span := range t.spans(prefix, max(prefix, from)) {
		count += span.To - span.From
	}
	return count
}

// Spans yields the entries whose key begins with prefix, leaf by leaf.
func (t Tree) Spans(prefix string) iter.Seq[encode.Span] {
	return t.spans(prefix, prefix)
}

// All yields the entries whose key begins with prefix and is not below from.
func (t Tree) All(prefix, from string) iter.Seq[*resource.Entry] {
	return func(yield func(*resource.Entry) bool) {
		for span := range t.spans(prefix, max(prefix, from)) {
			for _, e := range span.Entries[span.From:span.To] {
				if !yield(e) {
					return
				}
			}
		}
	}
}

func (t Tree) spans(prefix, from string) iter.Seq[encode.Span] {
	return func(yield func(encode.Span) bool) {
		if t.root != nil {
			t.root.walk(from, prefixEnd(prefix), yield)
		}
	}
}

// walk yields the leaves' parts in [from, end). An empty end is no bound.
func (n *node) walk(from, end string, yield func(encode.Span) bool) bool {
	if n.leaf() {
		first, _ := n.find(from)
		last := len(n.entries)
		if end != "" {
			last, _ = n.find(end)
		}
		if first >= last {
			return true
		}
		return yield(encode.Span{Memo: n.memo, Entries: n.entries, From: first, To: last})
	}
	for i := n.kidFor(from); i < len(n.kids); i++ {
		if end != "" && i > 0 && n.firsts[i] >= end {
			break
		}
		if !n.kids[i].walk(from, end, yield) {
			return false
		}
	}
	return true
}

// kidFor is the index of the kid that holds key if the tree does.
func (n *node) kidFor(key string) int {
	return max(0, sort.Search(len(n.firsts), func(i int) bool { return n.firsts[i] > key })-1)
}

// find is the index of the first entry whose key is not below key, and whether
// it is that key's.
func (n *node) find(key string) (int, bool) {
	return slices.BinarySearchFunc(n.entries, key, func(e *resource.Entry, key string) int {
		switch {
		case e.Key < key:
			return -1
		case e.Key > key:
			return 1
		}
		return 0
	})
}

// prefixEnd is the first key behind all that begin with prefix, "" for none.
func prefixEnd(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}
