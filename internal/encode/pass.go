package encode

import (
	"github.com/millrace/millrace/internal/resource"
	"github.com/millrace/millrace/internal/transcode"
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

// pass encodes a group for its first reader, in pooled buffers. It returns nil if the group
// was read before, or is not written by a transcoder.
//
// To keep the bytes of a first LIST costs as much as to transcode them: memory that is
// touched for the first time, garbage collections, and compression if the budget is tight.
// Many large LISTs have no successor: an informer lists once. So the second reader pays for
// what is kept. The cost is that a resource which is listed again is encoded twice. One whose
// fingerprints are known is passed each time if the budget is tight, because it is spliced
// faster than unpacked.
func (f *Form) pass(m *Memo, entries []*resource.Entry) (*passedSegment, error) {
	own, inherited, _ := m.slotOf(f, entries)
	if !f.passes(own, inherited) {
		return nil, nil
	}
	own.build.Lock()
	fingerprints, shared := own.build.fingerprints, own.build.plain.Value()
	own.build.Unlock()
	if shared != nil {
		return nil, nil
	}
	return f.passOnce(own, fingerprints)
}

// passLocked is pass with own.build held.
func (f *Form) passLocked(own, inherited *slot) (*passedSegment, error) {
	if !f.passes(own, inherited) || own.build.plain.Value() != nil {
		return nil, nil
	}
	return f.passOnce(own, own.build.fingerprints)
}

// passes reports whether there is nothing that a slot's segment could be made of.
func (f *Form) passes(own, inherited *slot) bool {
	return f.transcodes() && f.cfg.Budget != nil && inherited == nil && !own.large() && !own.copyable()
}

func (f *Form) passOnce(own *slot, fingerprints []transcode.Fingerprint) (*passedSegment, error) {
	if own.passed.Swap(true) && (fingerprints == nil || !f.cfg.Budget.tight(own.estimatedSize())) {
		return nil, nil
	}
	b := segmentBuilders.Get().(*segmentBuilder)
	p := &passedSegment{segment: segment{bytes: b.segment[:0], ends: b.ends[:0]}, builder: b}
	if err := f.appendEntries(&p.segment, own.entries, &b.item, fingerprints, nil); err != nil {
		return nil, err
	}
	own.plainSize.Store(p.segment.size)
	return p, nil
}
