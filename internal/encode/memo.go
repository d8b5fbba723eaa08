package encode

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"

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
		// before is the memo of the leaf that this one replaced, as long as
		// something may be copied from it.
		before *Memo
		// retired memos answer readers of old snapshots and keep nothing more.
		retired bool
	}
}

// slot is a group in one form.
type slot struct {
	form *Form
	// build is held by who encodes; it is never taken with Memo.mu held.
	build sync.Mutex
	// plain holds the segment, packed the deflated one.
	plain, packed cell
	// size is the plain segment's length, 0 before it was first encoded.
	size atomic.Int64
}

// wire is a segment. It is immutable and shared by all readers.
type wire struct {
	bytes []byte
	// entries and ends say where each item ends in plain bytes. Packed wires have none.
	entries []*resource.Entry
	ends    []uint32
	// crc and size describe the plain bytes. Plain wires leave crc out.
	crc  uint32
	size int64
}

const wireOverhead = 96

// cost counts the entries' slice too, which keeps replaced objects in memory.
func (w *wire) cost() int64 {
	return int64(cap(w.bytes)+4*cap(w.ends)) + wireOverhead
}

// Succeed tells the memo that its leaf replaces that of before. It is called
// once, by the cache's writer, ahead of the first reader.
func (m *Memo) Succeed(before *Memo) {
	before.mu.Lock()
	ancestor := before
	if len(before.mu.slots) == 0 {
		ancestor = before.mu.before
	}
	before.mu.before = nil
	before.mu.retired = true
	before.mu.Unlock()
	m.mu.Lock()
	m.mu.before = ancestor
	m.mu.Unlock()
}

// Retire tells the memo that its leaf left the tree without a successor.
func (m *Memo) Retire(b *Budget) {
	m.mu.Lock()
	m.mu.retired = true
	slots, before := m.mu.slots, m.mu.before
	m.mu.before = nil
	m.mu.Unlock()
	for _, s := range slots {
		b.drop(&s.plain)
		b.drop(&s.packed)
	}
	if before != nil {
		before.Retire(b)
	}
}

// Follow gives the memo of a leaf that was split off the same predecessor as
// the leaf that it was split from. It is called once, by the cache's writer.
func (m *Memo) Follow(other *Memo) {
	other.mu.Lock()
	before := other.mu.before
	other.mu.Unlock()
	m.mu.Lock()
	m.mu.before = before
	m.mu.Unlock()
}

// slotFor returns the memo's slot of a form, that of its predecessor, and
// whether new bytes are worth keeping.
func (m *Memo) slotFor(f *Form) (own, before *slot, keep bool) {
	m.mu.Lock()
	ancestor := m.mu.before
	keep = !m.mu.retired
	own = find(m.mu.slots, f)
	if own == nil {
		own = &slot{form: f}
		m.mu.slots = append(m.mu.slots, own)
	}
	m.mu.Unlock()
	if ancestor != nil {
		ancestor.mu.Lock()
		before = find(ancestor.mu.slots, f)
		ancestor.mu.Unlock()
	}
	return own, before, keep
}

func find(slots []*slot, f *Form) *slot {
	for _, s := range slots {
		if s.form == f {
			return s
		}
	}
	return nil
}

// plain returns the segment of a group.
func (f *Form) plain(m *Memo, entries []*resource.Entry) (*wire, error) {
	own, before, keep := m.slotFor(f)
	if w := own.plain.load(); w != nil {
		return w, nil
	}
	own.build.Lock()
	defer own.build.Unlock()
	return f.buildPlain(own, before, entries, keep)
}

// buildPlain is called with own.build held.
func (f *Form) buildPlain(own, before *slot, entries []*resource.Entry, keep bool) (*wire, error) {
	if w := own.plain.load(); w != nil {
		return w, nil
	}
	var old *wire
	if before != nil {
		old = before.plain.load()
	}
	w, err := f.encode(entries, old, int(own.size.Load()))
	if err != nil {
		return nil, err
	}
	own.size.Store(w.size)
	if keep {
		f.cfg.Budget.keep(&own.plain, w)
	}
	if before != nil {
		f.cfg.Budget.drop(&before.plain)
		f.cfg.Budget.drop(&before.packed)
	}
	return w, nil
}

// packed returns the deflated segment of a group.
func (f *Form) packed(m *Memo, entries []*resource.Entry) (*wire, error) {
	own, before, keep := m.slotFor(f)
	if w := own.packed.load(); w != nil {
		return w, nil
	}
	own.build.Lock()
	defer own.build.Unlock()
	if w := own.packed.load(); w != nil {
		return w, nil
	}
	plain, err := f.buildPlain(own, before, entries, keep)
	if err != nil {
		return nil, err
	}
	deflated, err := deflate(plain.bytes)
	if err != nil {
		return nil, err
	}
	w := &wire{bytes: deflated, crc: crc32.ChecksumIEEE(plain.bytes), size: plain.size}
	if keep {
		f.cfg.Budget.keep(&own.packed, w)
	}
	return w, nil
}

// size returns the length of a group's segment, encoding it if that is unknown.
func (f *Form) size(m *Memo, entries []*resource.Entry) (int64, error) {
	own, _, _ := m.slotFor(f)
	if n := own.size.Load(); n > 0 {
		return n, nil
	}
	w, err := f.plain(m, entries)
	if err != nil {
		return 0, err
	}
	return w.size, nil
}

// encode makes a segment, copying from old what it already holds. Both groups
// are in key order.
func (f *Form) encode(entries []*resource.Entry, old *wire, hint int) (*wire, error) {
	w := &wire{entries: entries, ends: make([]uint32, 0, len(entries)), bytes: make([]byte, 0, hint)}
	separator := f.cfg.Framing.separator()
	var scratch bytes.Buffer
	var err error
	at := 0
	for i, e := range entries {
		if i > 0 {
			w.bytes = append(w.bytes, separator...)
		}
		if old != nil {
			for at < len(old.entries) && old.entries[at].Key < e.Key {
				at++
			}
		}
		if old != nil && at < len(old.entries) && old.entries[at] == e {
			w.bytes = append(w.bytes, old.item(at, len(separator))...)
		} else if w.bytes, err = f.appendItem(w.bytes, e, &scratch); err != nil {
			return nil, fmt.Errorf("encode segment: %w", err)
		}
		w.ends = append(w.ends, uint32(len(w.bytes)))
	}
	// A segment lives long; what append grew in advance does not pay.
	if cap(w.bytes)-len(w.bytes) > len(w.bytes)/32 {
		w.bytes = bytes.Clone(w.bytes)
	}
	w.size = int64(len(w.bytes))
	return w, nil
}

// item returns the bytes of the i-th item.
func (w *wire) item(i, separator int) []byte { return w.items(i, i+1, separator) }

// items returns the bytes of items from..to-1 with the separators between them.
func (w *wire) items(from, to, separator int) []byte {
	start := 0
	if from > 0 {
		start = int(w.ends[from-1]) + separator
	}
	return w.bytes[start:w.ends[to-1]]
}
