package encode

import (
	"slices"
	"sync"

	"github.com/millrace/millrace/internal/wire/entry"
)

// Memo keeps the wire bytes of one group of neighbouring entries, in every form that was
// asked for. A group is a leaf of the cache's tree.
//
// Bytes are kept per leaf, not per object and not per list. One buffer per object would
// cost an allocation, a cell and a write for each of the objects of a list. Bytes per list
// would have to be made again whenever any object changes. A leaf is the unit that the
// cache replaces at a change. So the bytes live as long as the leaf, and nothing has to be
// invalidated.
//
// A group is immutable. When one of its entries changes, the cache makes a new leaf, whose
// memo succeeds the old one. The new memo inherits the old slots. When it is first read, it
// copies the items that did not change. So a change costs the encoding of one object, and
// its first reader copies the neighbours. Until then the old bytes stay in the budget.
//
// The first reader of a form encodes the group, while others that want the same form wait
// (see slot.build). Readers of old snapshots may still use a memo that was succeeded or
// retired; what they encode is not kept.
//
// The zero value is ready. A memo must not be copied.
type Memo struct {
	mu struct {
		sync.Mutex
		// slots are the slots of this leaf, at most one for each form.
		slots []*slot
		// inherited are slots of the leaves that this one replaced, at most one for each
		// form. A slot leaves when it has been copied.
		inherited []*slot
		// retired says that the leaf left the tree. Its memo keeps nothing new.
		retired bool
	}
}

// Succeed tells the memo that its leaf replaces the leaf of before. The cache's writer
// calls it once, ahead of the first reader. Slots that cannot be copied from give their
// bytes back to the budget.
func (m *Memo) Succeed(before *Memo, b *Budget) {
	before.mu.Lock()
	var inherited, useless []*slot
	for _, s := range before.mu.slots {
		if s.copyable() {
			inherited = append(inherited, s)
		} else {
			useless = append(useless, s)
		}
	}
	for _, s := range before.mu.inherited {
		if findSlot(inherited, s.form) == nil {
			inherited = append(inherited, s)
		} else {
			useless = append(useless, s)
		}
	}
	before.mu.inherited, before.mu.retired = nil, true
	before.mu.Unlock()
	for _, s := range useless {
		s.drop(b)
	}
	m.mu.Lock()
	m.mu.inherited = inherited
	m.mu.Unlock()
}

// Retire tells the memo that its leaf left the tree without a successor.
func (m *Memo) Retire(b *Budget) {
	m.mu.Lock()
	m.mu.retired = true
	all := slices.Concat(m.mu.slots, m.mu.inherited)
	m.mu.inherited = nil
	m.mu.Unlock()
	for _, s := range all {
		s.drop(b)
	}
}

// InheritFrom lets the memo copy from the predecessors of other, whose leaf was split. m is the
// memo of the new leaf. The cache's writer calls it once.
func (m *Memo) InheritFrom(other *Memo) {
	other.mu.Lock()
	inherited := slices.Clone(other.mu.inherited)
	other.mu.Unlock()
	m.mu.Lock()
	m.mu.inherited = inherited
	m.mu.Unlock()
}

// slotOf returns the memo's slot of a form, and the predecessor's slot of that form, which
// may be nil. keep reports whether new bytes are worth keeping.
func (m *Memo) slotOf(f *Form, entries []*entry.Entry) (own, inherited *slot, keep bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own = findSlot(m.mu.slots, f)
	if own == nil {
		own = &slot{form: f, entries: entries, cells: new(cells)}
		m.mu.slots = append(m.mu.slots, own)
	}
	return own, findSlot(m.mu.inherited, f), !m.mu.retired
}

// keep puts seg into a cell of one of the memo's slots, by put. If the leaf has left the tree
// meanwhile, keep empties the cell again, because no other goroutine may know of it. A
// succeeding memo that has inherited the slot then has less to copy.
func (m *Memo) keep(b *Budget, put func(*cell, *segment), c *cell, seg *segment) {
	put(c, seg)
	m.mu.Lock()
	retired := m.mu.retired
	m.mu.Unlock()
	if retired {
		b.drop(c)
	}
}

// disinherit forgets a predecessor's slot, which has been copied.
func (m *Memo) disinherit(s *slot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.inherited = slices.DeleteFunc(slices.Clone(m.mu.inherited), func(o *slot) bool { return o == s })
}

func findSlot(slots []*slot, f *Form) *slot {
	for _, s := range slots {
		if s.form == f {
			return s
		}
	}
	return nil
}
