package encode

import (
	"slices"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// passedSegment is a plain segment that is sent once and not kept.
type passedSegment struct {
	segment segment
	builder *segmentBuilder
}

// release gives the buffers back. The segment is not used any more.
func (p *passedSegment) release() {
	p.builder.segment, p.builder.ends = p.segment.bytes[:0], p.segment.ends[:0]
	p.builder.release()
}

const (
	// Each LIST after the first keeps one in keepShare groups. If the budget is tight, it
	// keeps one in keepShareTight, because keeping then includes compression. So no LIST
	// costs much more than the first (docs/bench/list.md).
	keepShare      = 6
	keepShareTight = 12
)

// pass encodes a group for one reader, in pooled buffers. It returns nil if the group
// is to be kept, if another reader still has its segment, or if passes does not allow
// it.
//
// To keep the bytes of a first LIST costs as much as to transcode them. It costs memory
// that is touched for the first time, garbage collections, and compression if the budget is
// tight. Many large LISTs have no successor: an informer lists once. If the second one kept
// everything, it would cost twice as much as the first. So each later one keeps a share of
// the groups, until all that fit are kept.
//
// The cost is that a resource which is listed again and again is encoded some times over. A
// group whose fingerprints are known is passed each time if the budget is tight, because it
// is spliced faster than unpacked.
func (f *Form) pass(m *Memo, entries []*entry.Entry) (*passedSegment, error) {
	own, inherited, keep := m.slotOf(f, entries)
	if !f.passes(own, inherited) {
		return nil, nil
	}
	own.build.Lock()
	fingerprints, shared := own.build.fingerprints, own.build.plain.Value()
	own.build.Unlock()
	if shared != nil {
		return nil, nil
	}
	tight := f.cfg.Budget.tight(own.estimatedSize())
	turn := own.takesTurn(f, tight)
	if turn && !tight {
		return nil, nil
	}
	p, err := f.encodeOnce(own, fingerprints)
	if err == nil && turn && keep && fingerprints == nil {
		own.build.Lock()
		defer own.build.Unlock()
		f.keepPassedLocked(m, own, p)
	}
	return p, err
}

// takesTurn counts a reader, and reports whether the slot's segment is to be kept for others.
// Neighbouring slots take turns.
func (s *slot) takesTurn(f *Form, tight bool) bool {
	readers := s.readers.Add(1)
	if readers == 1 {
		s.turn.Store(f.turns.Add(1))
	}
	share := uint32(keepShare)
	if tight {
		share = keepShareTight
	}
	return readers > 1 && (readers+s.turn.Load())%share == 0
}

// keepPassedLocked keeps a passed segment compressed, for a tight budget, in which plain
// segments are made of the compressed one. own.build is held.
func (f *Form) keepPassedLocked(m *Memo, own *slot, p *passedSegment) {
	if own.zstd.load() != nil {
		return
	}
	z := p.segment.zstdCompressed()
	z.ends = slices.Clone(z.ends)
	m.keep(f.cfg.Budget, f.cfg.Budget.keepCompressed, &own.zstd, z)
}

// passLocked is pass with own.build held, for a segment that is kept in another coding.
func (f *Form) passLocked(own, inherited *slot) (*passedSegment, error) {
	if !f.passes(own, inherited) || own.build.plain.Value() != nil {
		return nil, nil
	}
	return f.encodeOnce(own, own.build.fingerprints)
}

// passes reports whether a group may be encoded for one reader. Most of its objects are
// written without Kubernetes' encoder, it is not large, and nothing is kept of which its
// segment could be made.
func (f *Form) passes(own, inherited *slot) bool {
	return f.transcodes() && f.cfg.Budget != nil && inherited == nil && !own.large() && !own.copyable()
}

// encodeOnce encodes a group in pooled buffers.
func (f *Form) encodeOnce(own *slot, fingerprints []transcode.Fingerprint) (*passedSegment, error) {
	b := segmentBuilders.Get().(*segmentBuilder)
	p := &passedSegment{segment: segment{bytes: b.segment[:0], ends: b.ends[:0]}, builder: b}
	if err := f.appendEntries(&p.segment, own.entries, &b.item, fingerprints, nil); err != nil {
		return nil, err
	}
	own.plainSize.Store(p.segment.size)
	return p, nil
}
