package cache

import (
	"slices"

	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// Edit makes a new tree out of an old one. It copies each node once, at the first
// change, and changes the copy in place until Tree is called. One goroutine uses an
// Edit.
type Edit struct {
	root   *node
	order  *indexOrder
	budget *encode.Budget
	// leafLimit is the largest number of entries in a leaf.
	leafLimit int
	// detached says that the new tree does not replace the old one, whose memos stay in
	// use.
	detached bool
}

// Edit begins an edit whose tree replaces t. A leaf's memo gives its wire bytes to the memo of
// the leaf that replaces it. Memos of removed leaves return their bytes to the budget.
func (t Tree) Edit(budget *encode.Budget) *Edit {
	return &Edit{root: t.root, order: t.order, budget: budget, leafLimit: maxLeafEntries}
}

// editDetached begins an edit whose tree stands beside t and does not replace it. The
// leaves that it makes keep no wire bytes.
func (t Tree) editDetached() *Edit {
	return &Edit{root: t.root, order: t.order, leafLimit: maxLeafEntries, detached: true}
}

// retire ends the use of a removed leaf's memo.
func (edit *Edit) retire(m *encode.Memo) {
	if !edit.detached && m != nil {
		m.Retire(edit.budget)
	}
}

// newMemo makes the memo of a leaf that replaces none. Leaves of an index have no memo.
func (edit *Edit) newMemo() *encode.Memo {
	if edit.order != nil {
		return nil
	}
	return new(encode.Memo)
}

// successorMemo makes the memo of a leaf that replaces the leaf of before.
func (edit *Edit) successorMemo(before *encode.Memo) *encode.Memo {
	m := edit.newMemo()
	switch {
	case m == nil:
	case edit.detached:
		m.Retire(nil)
	default:
		m.Succeed(before, edit.budget)
	}
	return m
}

// Tree finishes the edit and returns the new tree. The Edit must not be used again.
func (edit *Edit) Tree() Tree {
	finish(edit.root, edit)
	return Tree{root: edit.root, order: edit.order}
}

// finish makes the nodes of an edit immutable. Nodes of older trees are reached only
// through them and are left alone.
func finish(n *node, edit *Edit) {
	if n == nil || n.edit != edit {
		return
	}
	n.edit = nil
	for _, child := range n.children {
		finish(child, edit)
	}
}

// Put adds an entry and returns the one that it replaced, or nil.
func (edit *Edit) Put(e *entry.Entry) (previous *entry.Entry) {
	if edit.root == nil {
		edit.root = &node{memo: edit.newMemo(), edit: edit}
	}
	root, sibling, previous := edit.putBelow(edit.root, edit.order.key(e), e)
	if sibling != nil {
		root = &node{
			children:  []*node{root, sibling},
			firstKeys: []string{edit.firstKey(root), edit.firstKey(sibling)},
			count:     root.count + sibling.count,
			edit:      edit,
		}
	}
	edit.root = root
	return previous
}

// putBelow adds an entry below n. It returns n's successor, the new sibling to its right if
// the successor was split, and the entry that was replaced.
func (edit *Edit) putBelow(n *node, key string, e *entry.Entry) (successor, sibling *node, previous *entry.Entry) {
	n = edit.makeMutable(n)
	if n.leaf() {
		i, found := n.find(edit.order, key)
		if found {
			previous, n.entries[i] = n.entries[i], e
		} else {
			n.entries = slices.Insert(n.entries, i, e)
			n.count++
		}
		if len(n.entries) > edit.leafLimit || edit.overfull(n) {
			sibling = edit.splitLeaf(n, i)
		}
		return n, sibling, previous
	}
	i := n.childIndex(key)
	child, grown, previous := edit.putBelow(n.children[i], key, e)
	n.children[i] = child
	n.firstKeys[i] = min(n.firstKeys[i], key)
	if grown != nil {
		n.children = slices.Insert(n.children, i+1, grown)
		n.firstKeys = slices.Insert(n.firstKeys, i+1, edit.firstKey(grown))
	}
	if previous == nil {
		n.count++
	}
	if len(n.children) > maxChildren {
		sibling = edit.splitInner(n)
	}
	return n, sibling, previous
}

// overfull reports whether the entries of some leaves together have too many bytes for
// one leaf. One entry alone is never too large. Leaves of an index have no such bound.
func (edit *Edit) overfull(leaves ...*node) bool {
	if edit.order != nil {
		return false
	}
	size, count := 0, 0
	for _, n := range leaves {
		count += len(n.entries)
		for _, e := range n.entries {
			size += e.Size()
		}
	}
	return size > maxLeafBytes && count > 1
}

// splitLeaf moves the upper part of a leaf to a new sibling. It splits in the middle. If the
// inserted entry is the last one, it moves that entry alone: keys that arrive in order then
// leave full leaves.
func (edit *Edit) splitLeaf(n *node, inserted int) *node {
	at := len(n.entries) / 2
	if inserted == len(n.entries)-1 {
		at = inserted
	}
	sibling := &node{entries: slices.Clone(n.entries[at:]), memo: edit.newMemo(), edit: edit}
	sibling.count = len(sibling.entries)
	if sibling.memo != nil {
		sibling.memo.InheritFrom(n.memo)
	}
	n.entries = slices.Clip(slices.Delete(n.entries, at, len(n.entries)))
	n.count = len(n.entries)
	return sibling
}

// splitInner moves the upper half of an inner node's children to a new sibling.
func (edit *Edit) splitInner(n *node) *node {
	at := len(n.children) / 2
	sibling := &node{children: slices.Clone(n.children[at:]), firstKeys: slices.Clone(n.firstKeys[at:]), edit: edit}
	n.children = slices.Delete(n.children, at, len(n.children))
	n.firstKeys = slices.Delete(n.firstKeys, at, len(n.firstKeys))
	n.recount()
	sibling.recount()
	return sibling
}

// Delete removes a key and returns its entry, or nil.
func (edit *Edit) Delete(key string) *entry.Entry {
	// Deleting copies the path to the key, even if there is no such key.
	if edit.root == nil || (Tree{root: edit.root, order: edit.order}).Get(key) == nil {
		return nil
	}
	root, previous := edit.deleteBelow(edit.root, key)
	for !root.leaf() && len(root.children) == 1 {
		root = root.children[0]
	}
	edit.root = root
	if root.count == 0 {
		edit.retire(root.memo)
		edit.root = nil
	}
	return previous
}

// deleteBelow removes a key, which must be there, from below n. It returns n's successor and
// the removed entry.
func (edit *Edit) deleteBelow(n *node, key string) (*node, *entry.Entry) {
	n = edit.makeMutable(n)
	n.count--
	if n.leaf() {
		i, _ := n.find(edit.order, key)
		previous := n.entries[i]
		n.entries = slices.Delete(n.entries, i, i+1)
		return n, previous
	}
	i := n.childIndex(key)
	child, previous := edit.deleteBelow(n.children[i], key)
	n.children[i] = child
	edit.rebalance(n, i)
	return n, previous
}

// rebalance removes the i-th child of n if it is empty. Otherwise it merges the child
// with its right neighbour, or the last child with its left one, if both together are
// small.
func (edit *Edit) rebalance(n *node, i int) {
	child := n.children[i]
	if child.count == 0 {
		edit.retire(child.memo)
		n.removeChild(i)
		return
	}
	left := i
	if i == len(n.children)-1 {
		left = i - 1
	}
	if left < 0 || !edit.mergeable(n.children[left], n.children[left+1]) {
		return
	}
	into, from := edit.makeMutable(n.children[left]), n.children[left+1]
	if into.leaf() {
		into.entries = append(into.entries, from.entries...)
		edit.retire(from.memo)
	} else {
		into.children = append(into.children, from.children...)
		into.firstKeys = append(into.firstKeys, from.firstKeys...)
	}
	into.count += from.count
	n.children[left] = into
	n.removeChild(left + 1)
}

// mergeable reports whether two neighbours fill at most half a node, so that the next
// insertions do not split it again.
func (edit *Edit) mergeable(a, b *node) bool {
	if a.leaf() {
		return len(a.entries)+len(b.entries) <= edit.leafLimit/2 && !edit.overfull(a, b)
	}
	return len(a.children)+len(b.children) <= maxChildren/2
}

// makeMutable returns n if the edit has made it, and otherwise a copy that the edit may
// change.
func (edit *Edit) makeMutable(n *node) *node {
	if n.edit == edit {
		return n
	}
	c := &node{count: n.count, edit: edit}
	if n.leaf() {
		c.entries = make([]*entry.Entry, len(n.entries), len(n.entries)+1)
		copy(c.entries, n.entries)
		c.memo = edit.successorMemo(n.memo)
		return c
	}
	c.children, c.firstKeys = slices.Clone(n.children), slices.Clone(n.firstKeys)
	return c
}

// firstKey returns the smallest key below n, or a lower bound of it.
func (edit *Edit) firstKey(n *node) string {
	if n.leaf() {
		return edit.order.key(n.entries[0])
	}
	return n.firstKeys[0]
}

// removeChild removes the i-th child. The caller adjusts count.
func (n *node) removeChild(i int) {
	n.children = slices.Delete(n.children, i, i+1)
	n.firstKeys = slices.Delete(n.firstKeys, i, i+1)
}

// recount sets the count of an inner node whose children have changed.
func (n *node) recount() {
	n.count = 0
	for _, child := range n.children {
		n.count += child.count
	}
}
