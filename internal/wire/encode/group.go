package encode

import (
	"time"
	"weak"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// This file has the ways of a Form to the bytes of one group, from the memo or by
// encoding.

// plainSegment returns the plain segment of a group.
func (f *Form) plainSegment(m *Memo, entries []*entry.Entry) (*segment, error) {
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

// borrow calls use with the plain segment of a group, which is valid until use returns. A
// large segment may have to wait for its admission. borrow then calls waited, which may be nil,
// with the beginning of the wait. If the segment is kept compressed because the budget is
// tight, it is decompressed into a pooled buffer for this call alone. That costs CPU and no
// memory that lasts.
func (f *Form) borrow(run EntryRun, waited func(since time.Time), use func(*segment) error) error {
	m, entries := run.Memo, run.Entries
	own, _, _ := m.slotOf(f, entries)
	if own.plain.load() == nil {
		if z := own.zstd.load(); z != nil && f.cfg.Budget.tight(z.size) {
			return z.useZstdDecompressed(use)
		}
	}
	if b := f.cfg.Budget; b != nil && own.large() {
		defer b.admission.release(b.admission.acquireTimed(&own.plain, own.estimatedSize(), waited))
	}
	passed, err := f.pass(m, entries)
	if err != nil {
		return err
	}
	if passed != nil {
		defer passed.release()
		return use(&passed.segment)
	}
	seg, err := f.plainSegment(m, entries)
	if err != nil {
		return err
	}
	return use(seg)
}

// buildPlainLocked returns the plain segment. own.build is held. fresh reports that the
// segment was encoded just now.
//
// With keep, it keeps the segment plain if there is room, and in a tight budget compressed too.
// A large segment is not kept plain. In a tight budget, a segment whose fingerprints are known
// is not kept at all, because it is spliced faster than unpacked.
func (f *Form) buildPlainLocked(m *Memo, own, inherited *slot, keep bool) (seg *segment, fresh bool, err error) {
	if seg := own.plain.load(); seg != nil {
		return seg, false, nil
	}
	seg, err = f.restorePlainLocked(own)
	fresh = seg == nil
	if fresh && err == nil {
		seg, err = f.encodeLocked(own, inherited.asCopySource(true))
	}
	if err != nil {
		return nil, false, err
	}
	tight := seg.rows == nil && !seg.large() && f.cfg.Budget.tight(seg.cost())
	own.plainSize.Store(seg.size)
	own.build.plain = weak.Make(seg)
	if !keep || tight && own.build.fingerprints != nil {
		return seg, fresh, nil
	}
	if tight && fresh {
		m.keep(f.cfg.Budget, f.cfg.Budget.keepCompressed, &own.zstd, seg.zstdCompressed())
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
// kept compressed. Otherwise it returns nil. own.build is held.
func (f *Form) restorePlainLocked(own *slot) (*segment, error) {
	if seg := own.build.plain.Value(); seg != nil {
		return seg, nil
	}
	if z := own.zstd.load(); z != nil {
		return z.zstdDecompressed()
	}
	return nil, nil
}

// size returns the length of a group's plain segment. If the length is not known, it measures
// or encodes the group.
func (f *Form) size(m *Memo, entries []*entry.Entry) (int64, error) {
	own, inherited, _ := m.slotOf(f, entries)
	if n := own.plainSize.Load(); n > 0 {
		return n, nil
	}
	if n := f.measure(own, inherited); n > 0 {
		return n, nil
	}
	seg, err := f.plainSegment(m, entries)
	if err != nil {
		return 0, err
	}
	return seg.size, nil
}

// measure returns the length of a plain segment of protobuf whose objects are all spliced,
// without making the segment. It returns 0 for any other.
func (f *Form) measure(own, inherited *slot) (size int64) {
	if f.cfg.Transcoder == nil || f.cfg.Framing != Protobuf || inherited != nil || own.large() {
		return 0
	}
	own.build.Lock()
	defer own.build.Unlock()
	if n := own.plainSize.Load(); n > 0 {
		return n // Another reader has measured it.
	}
	if own.copyable() {
		return 0 // The segment is made of what there is.
	}
	fingerprints := make([]transcode.Fingerprint, len(own.entries))
	for i, e := range own.entries {
		n, fingerprint, ok := f.cfg.Transcoder.Measure(e)
		if !ok {
			return 0
		}
		size, fingerprints[i] = size+int64(n), fingerprint
	}
	own.build.fingerprints = fingerprints
	own.plainSize.Store(size)
	return size
}

// item returns one item of a group: its bytes, which must not be changed, or its row. It does
// not encode the other items.
func (f *Form) item(m *Memo, entries []*entry.Entry, i int) ([]byte, Row, error) {
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
	seg, err := f.encodeOne(entries[i], own.asCopySource(false), inherited.asCopySource(false))
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
