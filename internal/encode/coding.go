package encode

import (
	"weak"

	"github.com/millrace/millrace/internal/resource"
)

// minPackedRatio is how many times smaller a large segment must become for its compressed
// bytes to be kept: others would take the room of hundreds of small objects.
const minPackedRatio = 8

// segmentCoding is how segments are compressed for one content coding, and where a slot has
// them.
type segmentCoding struct {
	cell     func(*slot) *cell
	weak     func(*slot) *weak.Pointer[segment]
	compress func(*Form, *segment) (*segment, error)
}

func codingOf(encoding Encoding) segmentCoding {
	if encoding == Zstd {
		return segmentCoding{
			cell:     func(s *slot) *cell { return &s.zipped },
			weak:     func(s *slot) *weak.Pointer[segment] { return &s.recentZipped },
			compress: func(_ *Form, plain *segment) (*segment, error) { return plain.zipped(), nil },
		}
	}
	return segmentCoding{
		cell:     func(s *slot) *cell { return &s.deflated },
		weak:     func(s *slot) *weak.Pointer[segment] { return &s.recentDeflated },
		compress: (*Form).deflate,
	}
}

func (f *Form) deflate(plain *segment) (*segment, error) {
	w, err := plain.deflated()
	if err == nil && f.cfg.Framing.isWatch() {
		w.sizes = plain.itemSizes()
	}
	return w, err
}

// packedSegment returns the segment of a group compressed for gzip or zstd streams.
func (f *Form) packedSegment(m *Memo, entries []*resource.Entry, encoding Encoding) (*segment, error) {
	own, before, keep := m.slotOf(f, entries)
	c := codingOf(encoding)
	at := c.cell(own)
	if w := at.load(); w != nil {
		return w, nil
	}
	own.build.Lock()
	defer own.build.Unlock()
	if w := at.load(); w != nil {
		return w, nil
	}
	recent := c.weak(own)
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
	w, err := c.compress(f, plain)
	if err != nil {
		return nil, err
	}
	*recent = weak.Make(w)
	switch {
	case !keep:
	case plain.large() && minPackedRatio*w.cost() > plain.cost():
		f.cfg.Budget.retainTransient(w)
	default:
		m.keep(f.cfg.Budget, f.cfg.Budget.keepPacked, at, w)
	}
	return w, nil
}

// borrowPacked is borrow for compressed segments. While a large one is made, its plain
// bytes are there too, so they are what counts.
func (f *Form) borrowPacked(m *Memo, entries []*resource.Entry, encoding Encoding, use func(*segment) error) error {
	own, _, _ := m.slotOf(f, entries)
	at := codingOf(encoding).cell(own)
	if b := f.cfg.Budget; b != nil && at.segment.Load() == nil && own.large() {
		defer b.admission.release(b.admission.acquire(at, own.estimatedSize()))
	}
	w, err := f.packedSegment(m, entries, encoding)
	if err != nil {
		return err
	}
	return use(w)
}
