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
// An index is a Tree too, ordered by an attribute ahead of the key; its leaves
// keep no wire bytes.
//
// The zero value is an empty tree, ordered by key.
type Tree struct {
	root *node
	by   *order
}

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
	// maxLeafBytes of stored objects share a leaf. A reader holds the wire bytes
	// of one leaf at a time, and compressors look back 32 KiB.
	maxLeafBytes = 192 << 10
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
	if span, ok := t.Find(key); ok {
		return span.Entries[span.From]
	}
	return nil
}

// Find returns the place of a key's entry.
func (t Tree) Find(key string) (encode.Span, bool) {
	n := t.root
	if n == nil {
		return encode.Span{}, false
	}
	for !n.leaf() {
		n = n.kids[n.kidFor(key)]
	}
	i, ok := n.find(t.by, key)
	return encode.Span{Memo: n.memo, Entries: n.entries, From: i, To: i + 1}, ok
}

// Count is the number of entries whose key begins with prefix.
func (t Tree) Count(prefix string) int { return t.CountFrom(prefix, "") }

// CountFrom is the number of entries that All yields.
func (t Tree) CountFrom(prefix, from string) int {
	last := t.Len()
	if end := prefixEnd(prefix); end != "" {
		last = t.rank(end)
	}
	return max(0, last-t.rank(max(prefix, from)))
}

// rank is the number of entries whose key is below key.
func (t Tree) rank(key string) int {
	n, below := t.root, 0
	if n == nil {
		return 0
	}
	for !n.leaf() {
		i := n.kidFor(key)
		for _, kid := range n.kids[:i] {
			below += kid.count
		}
		n = n.kids[i]
	}
	i, _ := n.find(t.by, key)
	return below + i
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

// walkRange visits the entries from one key to below another, "" for no bound.
func (t Tree) walkRange(from, end string, visit func(*resource.Entry)) {
	if t.root == nil {
		return
	}
	t.walk(t.root, [2]string{from, end}, func(span encode.Span) bool {
		for _, e := range span.Entries[span.From:span.To] {
			visit(e)
		}
		return true
	})
}

func (t Tree) spans(prefix, from string) iter.Seq[encode.Span] {
	return func(yield func(encode.Span) bool) {
		if t.root != nil {
			t.walk(t.root, [2]string{from, prefixEnd(prefix)}, yield)
		}
	}
}

// walk yields the leaves' parts from the first bound to the one below the
// second. An empty second one is no bound.
func (t Tree) walk(n *node, bounds [2]string, yield func(encode.Span) bool) bool {
	from, end := bounds[0], bounds[1]
	if n.leaf() {
		first, _ := n.find(t.by, from)
		last := len(n.entries)
		if end != "" {
			last, _ = n.find(t.by, end)
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
		if !t.walk(n.kids[i], bounds, yield) {
			return false
		}
	}
	return true
}

// kidFor is the index of the kid that holds key if the tree does.
func (n *node) kidFor(key string) int {
	return max(0, sort.Search(len(n.firsts), func(i int) bool { return n.firsts[i] > key })-1)
}

// find is the index of the first entry that is not below key, and whether it is
// that key's.
func (n *node) find(by *order, key string) (int, bool) {
	return slices.BinarySearchFunc(n.entries, key, by.compare)
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
