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
	budget *encode.Budget
	// aside says that the new tree does not take the old one's place: the memos
	// of both go their own ways.
	aside bool
}

// Edit begins a change. The memos of leaves that the change removes give back
// what they hold of the budget.
func (t Tree) Edit(budget *encode.Budget) *Edit {
	return &Edit{root: t.root, budget: budget}
}

// aside begins a change whose tree stands beside t and does not replace it. Its
// leaves keep no wire bytes.
func (t Tree) aside() *Edit { return &Edit{root: t.root, aside: true} }

// retire takes the memo of a leaf that the change removes out of use.
func (x *Edit) retire(m *encode.Memo) {
	if !x.aside {
		m.Retire(x.budget)
	}
}

// memoAfter makes the memo of a leaf that replaces another.
func (x *Edit) memoAfter(before *encode.Memo) *encode.Memo {
	m := new(encode.Memo)
	if x.aside {
		m.Retire(nil)
	} else {
		m.Succeed(before)
	}
	return m
}

// Tree ends the change. The Edit must not be used again.
func (x *Edit) Tree() Tree {
	finish(x.root, x)
	return Tree{root: x.root}
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
		x.root = &node{memo: new(encode.Memo), edit: x}
	}
	root, sibling, previous := x.put(x.root, e)
	if sibling != nil {
		root = &node{
			kids:   []*node{root, sibling},
			firsts: []string{root.first(), sibling.first()},
			count:  root.count + sibling.count,
			edit:   x,
		}
	}
	x.root = root
	return previous
}

func (x *Edit) put(n *node, e *resource.Entry) (own, sibling *node, previous *resource.Entry) {
	n = x.own(n)
	if n.leaf() {
		i, found := n.find(e.Key)
		if found {
			previous, n.entries[i] = n.entries[i], e
			return n, nil, previous
		}
		n.entries = slices.Insert(n.entries, i, e)
		n.count++
		if len(n.entries) > maxLeaf {
			sibling = x.splitLeaf(n, i)
		}
		return n, sibling, nil
	}
	i := n.kidFor(e.Key)
	kid, grown, previous := x.put(n.kids[i], e)
	n.kids[i] = kid
	n.firsts[i] = min(n.firsts[i], e.Key)
	if grown != nil {
		n.kids = slices.Insert(n.kids, i+1, grown)
		n.firsts = slices.Insert(n.firsts, i+1, grown.first())
	}
	if previous == nil {
		n.count++
	}
	if len(n.kids) > maxKids {
		sibling = x.splitInner(n)
	}
	return n, sibling, previous
}

// splitLeaf splits in the middle, except behind the last key: keys that arrive
// in order leave full leaves behind.
func (x *Edit) splitLeaf(n *node, inserted int) *node {
	at := len(n.entries) / 2
	if inserted == len(n.entries)-1 {
		at = inserted
	}
	sibling := &node{entries: slices.Clone(n.entries[at:]), memo: new(encode.Memo), edit: x}
	sibling.count = len(sibling.entries)
	sibling.memo.Follow(n.memo)
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
	if x.root == nil || (Tree{root: x.root}).Get(key) == nil {
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
		i, _ := n.find(key)
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
		if kid.memo != nil {
			x.retire(kid.memo)
		}
		n.remove(i)
		return
	}
	left := i
	if i == len(n.kids)-1 {
		left = i - 1
	}
	if left < 0 || !small(n.kids[left], n.kids[left+1]) {
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

func small(a, b *node) bool {
	if a.leaf() {
		return len(a.entries)+len(b.entries) <= maxLeaf/2
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

func (n *node) first() string {
	if n.leaf() {
		return n.entries[0].Key
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
