package encode

import (
	"weak"

	"github.com/millrace/millrace/internal/resource"
)

// This file has the ways of a Form to the bytes of one group, from the memo or by
// encoding.

// plainSegment returns the plain segment of a group.
func (f *Form) plainSegment(m *Memo, entries []*resource.Entry) (*segment, error) {
	own, inherited, keep := m.slotOf(f, entries)
	if seg := own.plain.load(); seg != nil {
		return seg, nil
	}
	own.build.Lock()
	defer own.build.Unlock()
	seg, fresh, err := f.buildPlainLocked(m, own, inherited, keep)
	if fresh && keep && seg.large() {
		f.cfg.Budget.retainTransient(seg)
	}
	return seg, err
}

// borrow calls use with the plain segment of a group, which is valid until use returns.
// It may wait for the admission of a large segment. If the segment is kept compressed
// because the budget is tight, it is decompressed into a pooled buffer for this call
// alone: that costs CPU and no memory that lasts.
func (f *Form) borrow(m *Memo, entries []*resource.Entry, use func(*segment) error) error {
	own, _, _ := m.slotOf(f, entries)
	if own.plain.load() == nil {
		if z := own.zstd.load(); z != nil && f.cfg.Budget.tight(z.size) {
			return z.useZstdDecompressed(use)
		}
	}
	if b := f.cfg.Budget; b != nil && own.large() {
		defer b.admission.release(b.admission.acquire(&own.plain, own.estimatedSize()))
	}
	seg, err := f.plainSegment(m, entries)
	if err != nil {
		return err
	}
	return use(seg)
}

// buildPlainLocked returns the plain segment, and keeps it as it deserves. own.build is
// held. fresh reports that the segment was encoded just now.
func (f *Form) buildPlainLocked(m *Memo, own, inherited *slot, keep bool) (seg *segment, fresh bool, err error) {
	if seg := own.plain.load(); seg != nil {
		return seg, false, nil
	}
	seg, err = f.restorePlainLocked(own)
	fresh = seg == nil
	if fresh && err == nil {
		seg, err = f.encode(own.entries, int(own.plainSize.Load()), own.copySource(false), inherited.copySource(true))
	}
	if err != nil {
		return nil, false, err
	}
	if fresh && keep && seg.rows == nil && !seg.large() && f.cfg.Budget.tight(seg.cost()) {
		m.keep(f.cfg.Budget, f.cfg.Budget.keepCompressed, &own.zstd, seg.zstdCompressed())
	}
	own.plainSize.Store(seg.size)
	own.build.plain = weak.Make(seg)
	if !keep {
		return seg, fresh, nil
	}
	if !seg.large() {
		m.keep(f.cfg.Budget, f.cfg.Budget.keepPlain, &own.plain, seg)
	}
	own.dropSingles(f.cfg.Budget)
	if inherited != nil {
		inherited.drop(f.cfg.Budget)
		m.disinherit(inherited)
	}
	return seg, fresh, nil
}

// restorePlainLocked returns the plain segment if another reader still has it or it is
// kept compressed, else nil. own.build is held.
func (f *Form) restorePlainLocked(own *slot) (*segment, error) {
	if seg := own.build.plain.Value(); seg != nil {
		return seg, nil
	}
	if z := own.zstd.load(); z != nil {
		return z.zstdDecompressed()
	}
	return nil, nil
}

// size returns the length of a group's plain segment. It encodes the group if the length
// is not known.
func (f *Form) size(m *Memo, entries []*resource.Entry) (int64, error) {
	own, _, _ := m.slotOf(f, entries)
	if n := own.plainSize.Load(); n > 0 {
		return n, nil
	}
	seg, err := f.plainSegment(m, entries)
	if err != nil {
		return 0, err
	}
	return seg.size, nil
}

// item returns one item of a group: its bytes, or its row. It does not encode the others.
func (f *Form) item(m *Memo, entries []*resource.Entry, i int) ([]byte, Row, error) {
	own, inherited, keep := m.slotOf(f, entries)
	if seg := own.plain.load(); seg != nil {
		b, row := f.itemOf(seg, i)
		return b, row, nil
	}
	if singles := own.singles.Load(); singles != nil {
		if seg := (*singles)[i].load(); seg != nil {
			b, row := seg.single()
			return b, row, nil
		}
	}
	own.build.Lock()
	defer own.build.Unlock()
	if seg := own.build.plain.Value(); seg != nil {
		b, row := f.itemOf(seg, i)
		return b, row, nil
	}
	seg, err := f.encode(entries[i:i+1], 0, own.copySource(false), inherited.copySource(false))
	if err != nil {
		return nil, nil, err
	}
	if keep && !seg.large() {
		singles := own.singles.Load()
		if singles == nil {
			empty := make([]cell, len(entries))
			singles = &empty
			own.singles.Store(singles)
		}
		if (*singles)[i].segment.Load() == nil {
			m.keep(f.cfg.Budget, f.cfg.Budget.keepPlain, &(*singles)[i], seg)
		}
	}
	b, row := seg.single()
	return b, row, nil
}

func (f *Form) itemOf(seg *segment, i int) ([]byte, Row) {
	if seg.rows != nil {
		return nil, seg.rows[i]
	}
	return seg.items(i, i+1, len(f.cfg.Framing.separator())), nil
}
