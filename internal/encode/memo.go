package encode

import (
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/millrace/millrace/internal/resource"
)

// Memo keeps the wire bytes of one group of neighbouring entries, a leaf of
// the cache's tree, in every form that was asked for. The group is immutable;
// when one of its entries changes, the cache makes a new leaf, whose memo
// succeeds the old one and copies what did not change.
//
// Each form is encoded by one reader while the others that want it wait. The
// zero value is ready. A memo must not be copied.
type Memo struct {
	mu struct {
		sync.Mutex
		slots []*slot
		// inherited are slots of the leaves that this one replaced, as long as
		// something may be copied from them: one for each form at most.
		inherited []*slot
		// retired memos answer readers of old snapshots and keep nothing more; see
		// Memo.keep.
		retired bool
	}
}

// slot is a group in one form.
type slot struct {
	form    *Form
	entries []*resource.Entry
	// build is held by who encodes; it is never taken with Memo.mu held.
	build sync.Mutex
	*cells
	// recent, recentDeflated and recentZipped are the segment in each coding as long as
	// some reader still has it, so that concurrent readers share what is not kept. They
	// are guarded by build.
	recent, recentDeflated, recentZipped weak.Pointer[segment]
	// singles holds items that were asked for alone; nil before the first.
	singles atomic.Pointer[[]cell]
	// plainSize is the plain segment's length, 0 before it was first encoded.
	plainSize atomic.Int64
}

// cells of a slot stand apart from it: the budget knows of them for longer than the
// entries are to stay.
type cells struct {
	// plain holds the segment; deflated and zipped hold it compressed. From
	// zipped the plain one is made again when there was no room for it.
	plain, deflated, zipped cell
}

// hasBytes reports whether anything can be copied from the slot.
func (s *slot) hasBytes() bool {
	return s.plain.segment.Load() != nil || s.zipped.segment.Load() != nil || s.singles.Load() != nil
}

// What a reader would have to make first.
func (s *slot) sizeUnknown() bool     { return s.plainSize.Load() == 0 }
func (s *slot) cold() bool            { return s.plain.segment.Load() == nil && s.missingZipped() }
func (s *slot) missingDeflated() bool { return s.deflated.segment.Load() == nil }
func (s *slot) missingZipped() bool   { return s.zipped.segment.Load() == nil }

// large reports whether plain bytes of the group would not be kept, as far as is known
// before it is encoded.
func (s *slot) large() bool { return large(s.estimatedSize(), len(s.entries)) }

// estimatedSize is the plain segment's length, or before it is known that of what is stored.
func (s *slot) estimatedSize() int64 {
	size := s.plainSize.Load()
	if size == 0 {
		for _, e := range s.entries {
			size += int64(e.Size())
		}
	}
	return size
}

func (s *slot) drop(b *Budget) {
	b.drop(&s.plain)
	b.drop(&s.deflated)
	b.drop(&s.zipped)
	s.dropSingles(b)
}

func (s *slot) dropSingles(b *Budget) {
	if single := s.singles.Swap(nil); single != nil {
		for i := range *single {
			b.drop(&(*single)[i])
		}
	}
}

// Succeed tells the memo that its leaf replaces that of before. It is called
// once, by the cache's writer, ahead of the first reader. What nothing will be copied
// from gives back what it holds of the budget.
func (m *Memo) Succeed(before *Memo, b *Budget) {
	before.mu.Lock()
	var inherited, left []*slot
	for _, s := range before.mu.slots {
		if s.hasBytes() {
			inherited = append(inherited, s)
		} else {
			left = append(left, s)
		}
	}
	for _, s := range before.mu.inherited {
		if findSlot(inherited, s.form) == nil {
			inherited = append(inherited, s)
		} else {
			left = append(left, s)
		}
	}
	before.mu.inherited, before.mu.retired = nil, true
	before.mu.Unlock()
	for _, s := range left {
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

// InheritFrom gives the memo of a leaf that was split off the same predecessor as
// the leaf that it was split from. It is called once, by the cache's writer.
func (m *Memo) InheritFrom(other *Memo) {
	other.mu.Lock()
	inherited := slices.Clone(other.mu.inherited)
	other.mu.Unlock()
	m.mu.Lock()
	m.mu.inherited = inherited
	m.mu.Unlock()
}

// slotOf returns the memo's slot of a form, that of its predecessors, and
// whether new bytes are worth keeping.
func (m *Memo) slotOf(f *Form, entries []*resource.Entry) (own, before *slot, keep bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own = findSlot(m.mu.slots, f)
	if own == nil {
		own = &slot{form: f, entries: entries, cells: new(cells)}
		m.mu.slots = append(m.mu.slots, own)
	}
	return own, findSlot(m.mu.inherited, f), !m.mu.retired
}

// keep puts w into a cell of one of the memo's slots, by put. The leaf may leave
// the tree meanwhile: then either the memo that succeeds it saw the cell filled
// and inherits it, or nobody else knows of it and it is emptied here.
func (m *Memo) keep(b *Budget, put func(*cell, *segment), c *cell, w *segment) {
	put(c, w)
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

// plainSegment returns the segment of a group.
func (f *Form) plainSegment(m *Memo, entries []*resource.Entry) (*segment, error) {
	own, before, keep := m.slotOf(f, entries)
	if w := own.plain.load(); w != nil {
		return w, nil
	}
	own.build.Lock()
	defer own.build.Unlock()
	w, fresh, err := f.buildPlain(m, own, before, keep)
	if fresh && keep && w.large() {
		f.cfg.Budget.retainTransient(w)
	}
	return w, err
}

// borrow calls use with the segment of a group, which is only good until use
// returns. A large one may have to wait until others have come back. One that is
// kept compressed for want of room is unpacked for this reader alone: what it costs
// is the unpacking and no memory.
func (f *Form) borrow(m *Memo, entries []*resource.Entry, use func(*segment) error) error {
	own, _, _ := m.slotOf(f, entries)
	if own.plain.load() == nil {
		if z := own.zipped.load(); z != nil && f.cfg.Budget.tight(z.size) {
			return z.unzippedFor(use)
		}
	}
	if b := f.cfg.Budget; b != nil && own.large() {
		defer b.admission.release(b.admission.acquire(&own.plain, own.estimatedSize()))
	}
	w, err := f.plainSegment(m, entries)
	if err != nil {
		return err
	}
	return use(w)
}

// buildPlain is called with own.build held. A fresh segment was encoded just now.
func (f *Form) buildPlain(m *Memo, own, before *slot, keep bool) (w *segment, fresh bool, err error) {
	if w := own.plain.load(); w != nil {
		return w, false, nil
	}
	w, err = f.restorePlain(own)
	fresh = w == nil
	if fresh && err == nil {
		w, err = f.encode(own.entries, int(own.plainSize.Load()), own.copySource(false), before.copySource(true))
	}
	if err != nil {
		return nil, false, err
	}
	if fresh && keep && w.rows == nil && !w.large() && f.cfg.Budget.tight(w.cost()) {
		m.keep(f.cfg.Budget, f.cfg.Budget.keepPacked, &own.zipped, w.zipped())
	}
	own.plainSize.Store(w.size)
	own.recent = weak.Make(w)
	if !keep {
		return w, fresh, nil
	}
	if !w.large() {
		m.keep(f.cfg.Budget, f.cfg.Budget.keepPlain, &own.plain, w)
	}
	own.dropSingles(f.cfg.Budget)
	if before != nil {
		before.drop(f.cfg.Budget)
		m.disinherit(before)
	}
	return w, fresh, nil
}

// restorePlain finds the segment among what a slot has besides plain bytes, nil for
// nothing. own.build is held.
func (f *Form) restorePlain(own *slot) (*segment, error) {
	if w := own.recent.Value(); w != nil {
		return w, nil
	}
	if z := own.zipped.load(); z != nil {
		return z.unzipped()
	}
	return nil, nil
}

// copySource is what can be copied from a slot, which may be nil. Compressed bytes
// are worth it for a whole group only.
func (s *slot) copySource(whole bool) *copySource {
	if s == nil {
		return &copySource{}
	}
	from := &copySource{entries: s.entries, group: s.plain.load()}
	if from.group == nil && whole {
		if z := s.zipped.load(); z != nil {
			// What cannot be read is encoded anew.
			from.group, _ = z.unzipped()
		}
	}
	if single := s.singles.Load(); single != nil {
		from.singles = *single
	}
	return from
}

// size returns the length of a group's segment, encoding it if that is unknown.
func (f *Form) size(m *Memo, entries []*resource.Entry) (int64, error) {
	own, _, _ := m.slotOf(f, entries)
	if n := own.plainSize.Load(); n > 0 {
		return n, nil
	}
	w, err := f.plainSegment(m, entries)
	if err != nil {
		return 0, err
	}
	return w.size, nil
}

// Warm encodes a group ahead of its first reader. stored is the size of all
// objects that are being warmed: what fits into the budget is kept plain, more
// is kept compressed. Large objects are left alone. It returns false when the budget
// has no room for more.
func (f *Form) Warm(span Span, stored int64) (more bool, err error) {
	b := f.cfg.Budget
	own, _, _ := span.Memo.slotOf(f, span.Entries)
	if !own.cold() {
		return true, nil
	}
	if b == nil || b.used.Load() >= b.limit/warmShare {
		return false, nil
	}
	if own.large() {
		return true, nil
	}
	if wireGrowth*stored > b.limit/warmShare {
		_, err = f.packedSegment(span.Memo, span.Entries, Zstd)
	} else {
		_, err = f.plainSegment(span.Memo, span.Entries)
	}
	return true, err
}

const (
	// warmShare of the budget may be filled before somebody asks.
	warmShare = 2
	// wireGrowth is about how much larger wire bytes are than stored ones, in the
	// two usual forms together.
	wireGrowth = 3
)

// item returns one item of a group, without encoding the others.
func (f *Form) item(m *Memo, entries []*resource.Entry, i int) ([]byte, Row, error) {
	own, before, keep := m.slotOf(f, entries)
	if w := own.plain.load(); w != nil {
		b, row := f.itemOf(w, i)
		return b, row, nil
	}
	if single := own.singles.Load(); single != nil {
		if w := (*single)[i].load(); w != nil {
			b, row := w.single()
			return b, row, nil
		}
	}
	own.build.Lock()
	defer own.build.Unlock()
	if w := own.recent.Value(); w != nil {
		b, row := f.itemOf(w, i)
		return b, row, nil
	}
	w, err := f.encode(entries[i:i+1], 0, own.copySource(false), before.copySource(false))
	if err != nil {
		return nil, nil, err
	}
	if keep && !w.large() {
		single := own.singles.Load()
		if single == nil {
			fresh := make([]cell, len(entries))
			single = &fresh
			own.singles.Store(single)
		}
		if (*single)[i].segment.Load() == nil {
			m.keep(f.cfg.Budget, f.cfg.Budget.keepPlain, &(*single)[i], w)
		}
	}
	b, row := w.single()
	return b, row, nil
}

func (f *Form) itemOf(w *segment, i int) ([]byte, Row) {
	if w.rows != nil {
		return nil, w.rows[i]
	}
	return w.items(i, i+1, len(f.cfg.Framing.separator())), nil
}
