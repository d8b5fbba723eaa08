package encode

import (
	"weak"

	"github.com/millrace/millrace/internal/resource"
)

// packedWorth is how many times smaller a large segment must become for its compressed
// bytes to be kept: others would take the room of hundreds of small objects.
const packedWorth = 8

// coding is how segments are compressed for one content coding, and where a slot has
// them.
type coding struct {
	at     func(*slot) *cell
	recent func(*slot) *weak.Pointer[wire]
	pack   func(*Form, *wire) (*wire, error)
}

func codingOf(encoding Encoding) coding {
	if encoding == Zstd {
		return coding{
			at:     func(s *slot) *cell { return &s.zipped },
			recent: func(s *slot) *weak.Pointer[wire] { return &s.recentZipped },
			pack:   func(_ *Form, plain *wire) (*wire, error) { return plain.zipped(), nil },
		}
	}
	return coding{
		at:     func(s *slot) *cell { return &s.deflated },
		recent: func(s *slot) *weak.Pointer[wire] { return &s.recentDeflated },
		pack:   (*Form).deflate,
	}
}

func (f *Form) deflate(plain *wire) (*wire, error) {
	w, err := plain.deflated()
	if err == nil && f.cfg.Framing.frames() {
		w.sizes = plain.itemSizes()
	}
	return w, err
}

// packed returns the segment of a group compressed for gzip or zstd streams.
func (f *Form) packed(m *Memo, entries []*resource.Entry, encoding Encoding) (*wire, error) {
	own, before, keep := m.slotOf(f, entries)
	c := codingOf(encoding)
	at := c.at(own)
	if w := at.load(); w != nil {
		return w, nil
	}
	own.build.Lock()
	defer own.build.Unlock()
	if w := at.load(); w != nil {
		return w, nil
	}
	recent := c.recent(own)
	if w := recent.Value(); w != nil {
		return w, nil
	}
	plain, _, err := f.buildPlain(m, own, before, keep)
	if err != nil {
		return nil, err
	}
	if w := at.load(); w != nil {
		return w, nil
	}
	w, err := c.pack(f, plain)
	if err != nil {
		return nil, err
	}
	*recent = weak.Make(w)
	switch {
	case !keep:
	case plain.large() && packedWorth*w.cost() > plain.cost():
		f.cfg.Budget.hold(w)
	default:
		m.keep(f.cfg.Budget, f.cfg.Budget.keepPacked, at, w)
	}
	return w, nil
}

// borrowPacked is borrow for compressed segments. While a large one is made, its plain
// bytes are there too, so they are what counts.
func (f *Form) borrowPacked(m *Memo, entries []*resource.Entry, encoding Encoding, use func(*wire) error) error {
	own, _, _ := m.slotOf(f, entries)
	at := codingOf(encoding).at(own)
	if b := f.cfg.Budget; b != nil && at.held.Load() == nil && own.large() {
		defer b.flights.end(b.flights.begin(at, own.about()))
	}
	w, err := f.packed(m, entries, encoding)
	if err != nil {
		return err
	}
	return use(w)
}
