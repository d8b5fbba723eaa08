package encode

import (
	"sync"
	"weak"

	"github.com/millrace/millrace/internal/resource"
)

// minCompressedRatio is how many times smaller a large segment must become for its
// compressed bytes to be kept. Others would take the room of hundreds of small objects.
const minCompressedRatio = 8

// segmentCoding is how segments are compressed for one content coding, and where a slot
// has them.
type segmentCoding struct {
	cell func(*slot) *cell
	// weak is guarded by slot.build.
	weak func(*slot) *weak.Pointer[segment]
	// compress is for a segment that is kept. pass is for one that its first reader is sent
	// and that is not kept; nil means that all are kept.
	compress, pass func(*Form, *segment) (*segment, error)
}

func codingOf(encoding Encoding) segmentCoding {
	if encoding == Zstd {
		return segmentCoding{
			cell:     func(s *slot) *cell { return &s.zstd },
			weak:     func(s *slot) *weak.Pointer[segment] { return &s.build.zstd },
			compress: func(_ *Form, plain *segment) (*segment, error) { return plain.zstdCompressed(), nil },
		}
	}
	return segmentCoding{
		cell:     func(s *slot) *cell { return &s.deflate },
		weak:     func(s *slot) *weak.Pointer[segment] { return &s.build.deflate },
		compress: func(f *Form, plain *segment) (*segment, error) { return f.deflate(plain, segmentDeflaters) },
		pass:     func(f *Form, plain *segment) (*segment, error) { return f.deflate(plain, fastDeflaters) },
	}
}

func (f *Form) deflate(plain *segment, pool *sync.Pool) (*segment, error) {
	seg, err := plain.deflated(pool)
	if err == nil && f.cfg.Framing.isWatch() {
		seg.sizes = plain.itemSizes()
	}
	return seg, err
}

// compressedSegment returns the segment of a group compressed for gzip or zstd streams.
//
// The first gzip stream is compressed fast, and its segments are not kept: to compress them
// well takes several times longer than to encode them. The second one compresses them well,
// for itself and all later ones.
func (f *Form) compressedSegment(m *Memo, entries []*resource.Entry, encoding Encoding) (*segment, error) {
	own, inherited, keep := m.slotOf(f, entries)
	coding := codingOf(encoding)
	c := coding.cell(own)
	if seg := c.load(); seg != nil {
		return seg, nil
	}
	own.build.Lock()
	defer own.build.Unlock()
	if seg := c.load(); seg != nil {
		return seg, nil
	}
	shared := coding.weak(own)
	if seg := shared.Value(); seg != nil {
		return seg, nil
	}
	if coding.pass != nil && !own.build.deflated {
		if seg, err := f.compressPassedLocked(own, coding, inherited); seg != nil || err != nil {
			return seg, err
		}
	}
	plain, _, err := f.buildPlainLocked(m, own, inherited, keep)
	if err != nil {
		return nil, err
	}
	// A tight budget has the plain segment kept as zstd.
	if seg := c.load(); seg != nil {
		return seg, nil
	}
	compress, passing := coding.compress, coding.pass != nil && !own.build.deflated && !plain.large()
	if passing {
		compress = coding.pass
	}
	seg, err := compress(f, plain)
	if err != nil {
		return nil, err
	}
	own.build.deflated = own.build.deflated || passing
	*shared = weak.Make(seg)
	switch {
	case !keep || passing:
	case plain.large() && minCompressedRatio*seg.cost() > plain.cost():
		f.cfg.Budget.retainTransient(seg)
	default:
		m.keep(f.cfg.Budget, f.cfg.Budget.keepCompressed, c, seg)
	}
	return seg, nil
}

// compressPassedLocked compresses the plain segment for its first reader, who is sent gzip. It
// returns nil if the group was read before. own.build is held.
func (f *Form) compressPassedLocked(own *slot, coding segmentCoding, inherited *slot) (*segment, error) {
	passed, err := f.passLocked(own, inherited)
	if passed == nil {
		return nil, err
	}
	defer passed.release()
	seg, err := coding.pass(f, &passed.segment)
	if err != nil {
		return nil, err
	}
	own.build.deflated = true
	*coding.weak(own) = weak.Make(seg)
	return seg, nil
}

// borrowCompressed is borrow for compressed segments. While a large segment is compressed
// its plain bytes are in memory too, so admission counts those.
func (f *Form) borrowCompressed(m *Memo, entries []*resource.Entry, encoding Encoding, use func(*segment) error) error {
	own, _, _ := m.slotOf(f, entries)
	c := codingOf(encoding).cell(own)
	if b := f.cfg.Budget; b != nil && c.segment.Load() == nil && own.large() {
		defer b.admission.release(b.admission.acquire(c, own.estimatedSize()))
	}
	seg, err := f.compressedSegment(m, entries, encoding)
	if err != nil {
		return err
	}
	return use(seg)
}
