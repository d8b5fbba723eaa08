package cache

import (
	"slices"

	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/resource"
)

// Edit makes a new tree out of an old one. Nodes that it has made are changed
// in place until Tree is called, so a batch of changes copies each node once.
// An Edit is used by one goroutine.
type Edit struct {
	root   *node
	by     *order
	budget *encode.Budget
	// leaf is the most entries of a leaf.
	leaf int
	// aside says that the new tree does not take the old one's place: the memos
	// of both go their own ways.
	aside bool
}

// Edit begins a change. The memos of leaves that the change removes or replaces give
// back what they hold of the budget and nobody inherits.
func (t Tree) Edit(budget *encode.Budget) *Edit {
	return &Edit{root: t.root, by: t.by, budget: budget, leaf: maxLeaf}
}

// aside begins a change whose tree stands beside t and does not replace it. Its
// leaves keep no wire bytes.
func (t Tree) aside() *Edit { return &Edit{root: t.root, by: t.by, leaf: maxLeaf, aside: true} }

// retire takes the memo of a leaf that the change removes out of use.
func (x *Edit) retire(m *encode.Memo) {
	if !x.aside && m != nil {
		m.Retire(x.budget)
	}
}

// newMemo makes the memo of a leaf that replaces none. Indexes have none.
func (x *Edit) newMemo() *encode.Memo {
	if x.by != nil {
		return nil
	}
	return new(encode.Memo)
}

// memoAfter makes the memo of a leaf that replaces another.
func (x *Edit) memoAfter(before *encode.Memo) *encode.Memo {
	m := x.newMemo()
	switch {
	case m == nil:
	case x.aside:
		m.Retire(nil)
	default:
		m.Succeed(before, x.budget)
	}
	return m
}

// Tree ends the change. The Edit must not be used again.
func (x *Edit) Tree() Tree {
	finish(x.root, x)
	return Tree{root: x.root, by: x.by}
}

// finish makes the nodes of an edit immutable.
func finish(n *node, x *Edit) {
	if n == nil || n.edit != x {
		return
	}
	n.edit = nil
	for _, kid := range n.kids {
		finish(kid, x)
	}
}

// Put adds an entry and returns the one that it replaced, or nil.
func (x *Edit) Put(e *resource.Entry) (previous *resource.Entry) {
	if x.root == nil {
		x.root = &node{memo: x.newMemo(), edit: x}
	}
	root, sibling, previous := x.put(x.root, x.by.key(e), e)
	if sibling != nil {
		root = &node{
			kids:   []*node{root, sibling},
			firsts: []string{x.first(root), x.first(sibling)},
			count:  root.count + sibling.count,
			edit:   x,
		}
	}
	x.root = root
	return previous
}

func (x *Edit) put(n *node, key string, e *resource.Entry) (own, sibling *node, previous *resource.Entry) {
	n = x.own(n)
	if n.leaf() {
		i, found := n.find(x.by, key)
		if found {
			previous, n.entries[i] = n.entries[i], e
		} else {
			n.entries = slices.Insert(n.entries, i, e)
			n.count++
		}
		if len(n.entries) > x.leaf || x.heavy(n) {
			sibling = x.splitLeaf(n, i)
		}
		return n, sibling, previous
	}
	i := n.kidFor(key)
	kid, grown, previous := x.put(n.kids[i], key, e)
	n.kids[i] = kid
	n.firsts[i] = min(n.firsts[i], key)
	if grown != nil {
		n.kids = slices.Insert(n.kids, i+1, grown)
		n.firsts = slices.Insert(n.firsts, i+1, x.first(grown))
	}
	if previous == nil {
		n.count++
	}
	if len(n.kids) > maxKids {
		sibling = x.splitInner(n)
	}
	return n, sibling, previous
}

// heavy reports whether a leaf has too many bytes for its number of objects.
func (x *Edit) heavy(leaves ...*node) bool {
	if x.by != nil {
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

// splitLeaf splits in the middle, except behind the last key: keys that arrive
// in order leave full leaves behind.
func (x *Edit) splitLeaf(n *node, inserted int) *node {
	at := len(n.entries) / 2
	if inserted == len(n.entries)-1 {
		at = inserted
	}
	sibling := &node{entries: slices.Clone(n.entries[at:]), memo: x.newMemo(), edit: x}
	sibling.count = len(sibling.entries)
	if sibling.memo != nil {
		sibling.memo.InheritFrom(n.memo)
	}
	n.entries = slices.Clip(slices.Delete(n.entries, at, len(n.entries)))
	n.count = len(n.entries)
	return sibling
}

func (x *Edit) splitInner(n *node) *node {
	at := len(n.kids) / 2
	sibling := &node{kids: slices.Clone(n.kids[at:]), firsts: slices.Clone(n.firsts[at:]), edit: x}
	n.kids = slices.Delete(n.kids, at, len(n.kids))
	n.firsts = slices.Delete(n.firsts, at, len(n.firsts))
	n.recount()
	sibling.recount()
	return sibling
}

// Delete removes a key and returns its entry, or nil.
func (x *Edit) Delete(key string) *resource.Entry {
	if x.root == nil || (Tree{root: x.root, by: x.by}).Get(key) == nil {
		return nil
	}
	root, previous := x.delete(x.root, key)
	for !root.leaf() && len(root.kids) == 1 {
		root = root.kids[0]
	}
	if x.root = root; root.count == 0 {
		x.retire(root.memo)
		x.root = nil
	}
	return previous
}

// delete removes a key that the tree holds.
func (x *Edit) delete(n *node, key string) (*node, *resource.Entry) {
	n = x.own(n)
	n.count--
	if n.leaf() {
		i, _ := n.find(x.by, key)
		previous := n.entries[i]
		n.entries = slices.Delete(n.entries, i, i+1)
		return n, previous
	}
	i := n.kidFor(key)
	kid, previous := x.delete(n.kids[i], key)
	n.kids[i] = kid
	x.mend(n, i)
	return n, previous
}

// mend removes the i-th kid if it is empty, and merges it with its right or
// left neighbour if both together are small.
func (x *Edit) mend(n *node, i int) {
	kid := n.kids[i]
	if kid.count == 0 {
		x.retire(kid.memo)
		n.remove(i)
		return
	}
	left := i
	if i == len(n.kids)-1 {
		left = i - 1
	}
	if left < 0 || !x.small(n.kids[left], n.kids[left+1]) {
		return
	}
	into, from := x.own(n.kids[left]), n.kids[left+1]
	if into.leaf() {
		into.entries = append(into.entries, from.entries...)
		x.retire(from.memo)
	} else {
		into.kids = append(into.kids, from.kids...)
		into.firsts = append(into.firsts, from.firsts...)
	}
	into.count += from.count
	n.kids[left] = into
	n.remove(left + 1)
}

func (x *Edit) small(a, b *node) bool {
	if a.leaf() {
		return len(a.entries)+len(b.entries) <= x.leaf/2 && !x.heavy(a, b)
	}
	return len(a.kids)+len(b.kids) <= maxKids/2
}

// own returns a node that the edit may change: n or a copy of it.
func (x *Edit) own(n *node) *node {
	if n.edit == x {
		return n
	}
	c := &node{count: n.count, edit: x}
	if n.leaf() {
		c.entries = make([]*resource.Entry, len(n.entries), len(n.entries)+1)
		copy(c.entries, n.entries)
		c.memo = x.memoAfter(n.memo)
		return c
	}
	c.kids, c.firsts = slices.Clone(n.kids), slices.Clone(n.firsts)
	return c
}

func (x *Edit) first(n *node) string {
	if n.leaf() {
		return x.by.key(n.entries[0])
	}
	return n.firsts[0]
}

func (n *node) remove(i int) {
	n.kids = slices.Delete(n.kids, i, i+1)
	n.firsts = slices.Delete(n.firsts, i, i+1)
}

func (n *node) recount() {
	n.count = 0
	for _, kid := range n.kids {
		n.count += kid.count
	}
}
