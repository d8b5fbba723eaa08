package encode

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// segmentBuilder has the buffers in which a segment is encoded. Pooled buffers spare a cold
// LIST most of its garbage, which would be buffers that grow.
type segmentBuilder struct {
	segment []byte
	ends    []uint32
	item    bytes.Buffer
}

// maxBuilderBuffer is the largest buffer that goes back to the pool, in bytes, for segments
// and for items each. etcd stores objects of up to 1.5 MB by default.
const maxBuilderBuffer = 2 << 20

var segmentBuilders = sync.Pool{New: func() any { return new(segmentBuilder) }}

func (b *segmentBuilder) release() {
	if b.item.Cap() <= maxBuilderBuffer && cap(b.segment) <= maxBuilderBuffer {
		segmentBuilders.Put(b)
	}
}

// encodeLocked makes the plain segment of a slot, with items copied from the slot and from
// inherited as encodeEntries does. own.build is held.
func (f *Form) encodeLocked(own *slot, inherited *copySource) (*segment, error) {
	return f.encodeEntries(own.entries, int(own.plainSize.Load()), own.build.fingerprints, own.asCopySource(false), inherited)
}

// encodeOne makes the plain segment of one entry.
func (f *Form) encodeOne(e *entry.Entry, from ...*copySource) (*segment, error) {
	return f.encodeEntries([]*entry.Entry{e}, 0, nil, from...)
}

// encodeEntries makes a plain segment. hint is its expected length in bytes, or 0 if that is
// not known. fingerprints are in the order of the entries, or nil if they are not known. If
// they are nil, items that one of the sources has are copied.
func (f *Form) encodeEntries(entries []*entry.Entry, hint int, fingerprints []transcode.Fingerprint, from ...*copySource) (*segment, error) {
	seg := &segment{}
	if f.cfg.Row != nil {
		seg.rows = make([]Row, 0, len(entries))
	} else {
		seg.ends = make([]uint32, 0, len(entries))
	}
	b := segmentBuilders.Get().(*segmentBuilder)
	defer b.release()
	if hint > 0 {
		seg.bytes = make([]byte, 0, hint)
	} else {
		seg.bytes = b.segment[:0]
	}
	if err := f.appendEntries(seg, entries, &b.item, fingerprints, from); err != nil {
		return nil, err
	}
	switch grown := cap(seg.bytes); {
	case hint == 0 && grown <= maxBuilderBuffer:
		b.segment = seg.bytes[:0]
		seg.bytes = bytes.Clone(seg.bytes)
	case grown-len(seg.bytes) > len(seg.bytes)/32:
		// A segment lives long, so the room that append reserved is given back.
		seg.bytes = bytes.Clone(seg.bytes)
	}
	return seg, nil
}

// appendEntries appends entries to an empty segment.
func (f *Form) appendEntries(seg *segment, entries []*entry.Entry, scratch *bytes.Buffer, fingerprints []transcode.Fingerprint, from []*copySource) error {
	separator := f.cfg.Framing.separator()
	for i, e := range entries {
		if i > 0 && seg.rows == nil {
			seg.bytes = append(seg.bytes, separator...)
		}
		var err error
		if fingerprints != nil {
			err = f.encodeMeasured(seg, e, fingerprints[i], scratch)
		} else {
			err = f.encodeItem(seg, e, scratch, from)
		}
		if err != nil {
			return fmt.Errorf("encode segment: %w", err)
		}
	}
	seg.size = int64(len(seg.bytes))
	return nil
}

// encodeMeasured appends an entry whose fingerprint is known.
func (f *Form) encodeMeasured(seg *segment, e *entry.Entry, fingerprint transcode.Fingerprint, scratch *bytes.Buffer) (err error) {
	seg.bytes, err = f.cfg.Transcoder.AppendMeasured(seg.bytes, e, fingerprint, func(dst []byte) ([]byte, error) { return f.encodeItemOf(dst, e, scratch) })
	seg.ends = append(seg.ends, uint32(len(seg.bytes)))
	return err
}

// encodeItem appends an entry's item, or its row, to a segment.
func (f *Form) encodeItem(seg *segment, e *entry.Entry, scratch *bytes.Buffer, from []*copySource) error {
	var item []byte
	var row Row
	for _, s := range from {
		if item, row = s.item(e, len(f.cfg.Framing.separator())); item != nil || row != nil {
			break
		}
	}
	var err error
	switch {
	case f.cfg.Row != nil:
		if row == nil {
			row, err = f.cfg.Row(e)
			err = entryError(e, err)
		}
		seg.rows = append(seg.rows, row)
	case item != nil:
		seg.bytes = append(seg.bytes, item...)
	default:
		seg.bytes, err = f.appendItem(seg.bytes, e, scratch)
	}
	if seg.rows == nil {
		seg.ends = append(seg.ends, uint32(len(seg.bytes)))
	}
	return err
}
