package cache

import (
	"iter"
	"slices"
	"sort"

	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// Tree is an ordered map from key to entry. A Tree value never changes: an Edit copies
// the path from the root to each leaf that it touches and shares all other nodes.
// Readers can hold any number of versions without a lock.
//
// It is a B+tree whose nodes are copied on write. A library's would not do: a leaf is the
// unit that is encoded, compressed and cached (its memo). So the tree must hold neighbours
// together, bound their number and bytes, and replace a leaf exactly when one of its entries
// changes. Each node also counts the entries below it, so that the count of a range needs no
// walk.
//
// What it costs: a change copies one leaf (up to 48 pointers) and the inner nodes above
// it (up to 64 children each). That is some 4 KiB (docs/bench/cache.md). A batch copies
// each node once. The next read copies the wire bytes of the leaf's other entries, and
// compresses them again.
//
// An index is a Tree too. It is ordered by an attribute ahead of the key, and its leaves
// have no memo. A key in it is a key of its order: see indexOrder.
//
// The zero value is an empty tree, ordered by key.
type Tree struct {
	root *node
	// order is the order of the entries. Nil means the order of their keys.
	order *indexOrder
}

// node is a leaf or an inner node. A node of a finished tree is immutable, except for
// the memo, which synchronizes itself.
type node struct {
	// entries and memo belong to leaves. Leaves of an index have no memo.
	entries []*entry.Entry
	memo    *encode.Memo
	// children and firstKeys belong to inner nodes. firstKeys[i] separates two children. It
	// is at most the smallest key in children[i], and above every key in children[i-1].
	children  []*node
	firstKeys []string
	// count is the number of entries in a leaf, or below an inner node.
	count int
	// edit is the unfinished edit that made the node and may change it in place. It is
	// nil in a finished tree.
	edit *Edit
}

const (
	// maxLeafEntries is the largest number of entries in a leaf, unless Config.LeafObjects
	// says otherwise. It is a compromise. Each change compresses its leaf again, which asks
	// for small leaves. With large ones neighbours compress better together, and a LIST takes
	// fewer writes.
	maxLeafEntries = 48
	// maxChildren is the largest number of children of an inner node.
	maxChildren = 64
	// maxLeafBytes is the size of stored objects above which a leaf is split. Readers hold
	// whole leaves as wire bytes, and deflate looks back no further than 32 KiB.
	maxLeafBytes = 192 << 10
)

func (n *node) leaf() bool { return n.children == nil }

// Len returns the number of entries.
func (t Tree) Len() int {
	if t.root == nil {
		return 0
	}
	return t.root.count
}

// Get returns the entry of a key, or nil.
func (t Tree) Get(key string) *entry.Entry {
	if run, ok := t.Find(key); ok {
		return run.Entries[run.From]
	}
	return nil
}

// Find returns the run of one entry, the one with the key, and whether there is one.
func (t Tree) Find(key string) (encode.EntryRun, bool) {
	n := t.root
	if n == nil {
		return encode.EntryRun{}, false
	}
	for !n.leaf() {
		n = n.children[n.childIndex(key)]
	}
	i, ok := n.find(t.order, key)
	return encode.EntryRun{Memo: n.memo, Entries: n.entries, From: i, To: i + 1}, ok
}

// Count returns the number of entries whose key begins with prefix.
func (t Tree) Count(prefix string) int { return t.CountFrom(prefix, "") }

// CountFrom returns the number of entries that All yields.
func (t Tree) CountFrom(prefix, from string) int {
	last := t.Len()
	if end := prefixEnd(prefix); end != "" {
		last = t.rank(end)
	}
	return max(0, last-t.rank(max(prefix, from)))
}

// rank returns the number of entries whose key is below a key.
func (t Tree) rank(key string) int {
	n, below := t.root, 0
	if n == nil {
		return 0
	}
	for !n.leaf() {
		i := n.childIndex(key)
		for _, child := range n.children[:i] {
			below += child.count
		}
		n = n.children[i]
	}
	i, _ := n.find(t.order, key)
	return below + i
}

// Runs yields the entries whose key begins with prefix, leaf by leaf.
func (t Tree) Runs(prefix string) iter.Seq[encode.EntryRun] {
	return t.runsFrom(prefix, prefix)
}

// All yields the entries whose key begins with prefix and is not below from.
func (t Tree) All(prefix, from string) iter.Seq[*entry.Entry] {
	return func(yield func(*entry.Entry) bool) {
		for run := range t.runsFrom(prefix, max(prefix, from)) {
			for _, e := range run.Entries[run.From:run.To] {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// walkRange visits the entries whose key is at least from and below end. An empty end
// is no bound.
func (t Tree) walkRange(from, end string, visit func(*entry.Entry)) {
	if t.root == nil {
		return
	}
	t.walk(t.root, [2]string{from, end}, func(run encode.EntryRun) bool {
		for _, e := range run.Entries[run.From:run.To] {
			visit(e)
		}
		return true
	})
}

// runsFrom yields the entries that All yields, leaf by leaf.
func (t Tree) runsFrom(prefix, from string) iter.Seq[encode.EntryRun] {
	return func(yield func(encode.EntryRun) bool) {
		if t.root != nil {
			t.walk(t.root, [2]string{from, prefixEnd(prefix)}, yield)
		}
	}
}

// walk yields, leaf by leaf, the entries whose key is at least bounds[0] and below
// bounds[1]. An empty bounds[1] is no bound. It returns false if yield did.
func (t Tree) walk(n *node, bounds [2]string, yield func(encode.EntryRun) bool) bool {
	from, end := bounds[0], bounds[1]
	if n.leaf() {
		first, _ := n.find(t.order, from)
		last := len(n.entries)
		if end != "" {
			last, _ = n.find(t.order, end)
		}
		if first >= last {
			return true
		}
		return yield(encode.EntryRun{Memo: n.memo, Entries: n.entries, From: first, To: last})
	}
	for i := n.childIndex(from); i < len(n.children); i++ {
		if end != "" && i > 0 && n.firstKeys[i] >= end {
			break
		}
		if !t.walk(n.children[i], bounds, yield) {
			return false
		}
	}
	return true
}

// childIndex returns the index of the child that covers a key.
func (n *node) childIndex(key string) int {
	return max(0, sort.Search(len(n.firstKeys), func(i int) bool { return n.firstKeys[i] > key })-1)
}

// find returns the index of the first entry in a leaf that is not below a key, and whether
// the entry has that key.
func (n *node) find(order *indexOrder, key string) (int, bool) {
	return slices.BinarySearchFunc(n.entries, key, order.compare)
}

// prefixEnd returns the smallest key above all keys that begin with prefix. It returns ""
// if there is none.
func prefixEnd(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}
