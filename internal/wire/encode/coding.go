package encode

import (
	"slices"
	"time"
	"weak"

	"github.com/millrace/millrace/internal/wire/entry"
)

// minCompressedRatio is how many times smaller a large segment must become for its compressed
// bytes to be kept. Others would take the room of hundreds of small objects.
const minCompressedRatio = 8

// segmentCoding is one content coding of segments.
type segmentCoding struct {
	// cell returns the cell of a slot that keeps the compressed segment.
	cell func(*slot) *cell
	// shared returns the pointer to a compressed segment that a reader may still hold. slot.build
	// guards it.
	shared func(*slot) *weak.Pointer[segment]
	// compress compresses a plain segment.
	compress func(*Form, *segment) *segment
}

// codingOf returns the coding of Zstd, or else of Gzip.
func codingOf(encoding Encoding) segmentCoding {
	if encoding == Zstd {
		return segmentCoding{
			cell:     func(s *slot) *cell { return &s.zstd },
			shared:   func(s *slot) *weak.Pointer[segment] { return &s.build.zstd },
			compress: func(_ *Form, plain *segment) *segment { return plain.zstdCompressed() },
		}
	}
	return segmentCoding{
		cell:     func(s *slot) *cell { return &s.deflate },
		shared:   func(s *slot) *weak.Pointer[segment] { return &s.build.deflate },
		compress: (*Form).deflate,
	}
}

func (f *Form) deflate(plain *segment) *segment {
	seg := plain.deflated()
	if f.cfg.Framing.isWatch() {
		seg.sizes = plain.itemSizes()
	}
	return seg
}

// compressedSegment returns the segment of a group compressed for gzip or zstd streams. Its first
// reader keeps it, unless m is retired, or the segment is large and compresses badly. The
// plain segment that a transcoder makes for it is not kept.
func (f *Form) compressedSegment(m *Memo, entries []*entry.Entry, encoding Encoding) (*segment, error) {
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
	shared := coding.shared(own)
	if seg := shared.Value(); seg != nil {
		return seg, nil
	}
	passed, err := f.passLocked(own, inherited)
	if err != nil {
		return nil, err
	}
	var plain *segment
	if passed != nil {
		defer passed.release()
		plain = &segment{bytes: passed.segment.bytes, ends: slices.Clone(passed.segment.ends), size: passed.segment.size}
	} else if plain, _, err = f.buildPlainLocked(m, own, inherited, keep); err != nil {
		return nil, err
	}
	// Under a tight budget buildPlainLocked keeps the plain segment as zstd, maybe in c.
	if seg := c.load(); seg != nil {
		return seg, nil
	}
	seg := coding.compress(f, plain)
	*shared = weak.Make(seg)
	switch {
	case !keep: // The memo is retired.
	case plain.large() && minCompressedRatio*seg.cost() > plain.cost():
		f.cfg.Budget.retainTransient(seg)
	default:
		m.keep(f.cfg.Budget, f.cfg.Budget.keepCompressed, c, seg)
	}
	return seg, nil
}

// borrowCompressed is borrow for compressed segments. While a large segment is compressed
// its plain bytes are in memory too, so admission counts the plain bytes.
func (f *Form) borrowCompressed(run EntryRun, encoding Encoding, waited func(since time.Time), use func(*segment) error) error {
	own, _, _ := run.Memo.slotOf(f, run.Entries)
	c := codingOf(encoding).cell(own)
	if b := f.cfg.Budget; b != nil && c.segment.Load() == nil && own.large() {
		defer b.admission.release(b.admission.acquireTimed(c, own.estimatedSize(), waited))
	}
	seg, err := f.compressedSegment(run.Memo, run.Entries, encoding)
	if err != nil {
		return err
	}
	return use(seg)
}
