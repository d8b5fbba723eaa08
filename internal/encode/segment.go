package encode

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/resource"
)

// Row is a row of a table: its bytes depend on the time of the request.
type Row interface {
	// Append appends the row as it reads at a time.
	Append(dst []byte, now time.Time) []byte
	// Size is what the row takes in memory.
	Size() int
}

// segment is a segment. It is immutable and shared by all readers.
type segment struct {
	// bytes are the items, joined; of a table, rows are instead.
	bytes []byte
	rows  []Row
	// ends say where each item ends in the plain bytes. What was packed for clients
	// alone has none.
	ends []uint32
	// crc and size describe the plain bytes. Plain wires leave crc out.
	crc  uint32
	size int64
	// sizes are those of the frames in a deflated group, of watches alone.
	sizes []uint32
}

const segmentOverhead = 96

// cost is what the segment takes in memory.
func (seg *segment) cost() int64 {
	n := int64(cap(seg.bytes)+4*cap(seg.ends)+4*cap(seg.sizes)+16*cap(seg.rows)) + segmentOverhead
	for _, r := range seg.rows {
		n += int64(r.Size())
	}
	return n
}

// large reports whether the objects are so large that encoding them costs little
// more than copying them: their plain bytes are not worth keeping.
func (seg *segment) large() bool { return large(seg.size, max(len(seg.ends), len(seg.rows))) }

func large(size int64, objects int) bool {
	const largeObject = 64 << 10
	return size > largeObject*int64(objects)
}

// items returns the bytes of items from..to-1 with the separators between them.
func (seg *segment) items(from, to, separator int) []byte {
	start := 0
	if from > 0 {
		start = int(seg.ends[from-1]) + separator
	}
	return seg.bytes[start:seg.ends[to-1]]
}

// copySource gives the items of a leaf's predecessor. Both are in key order.
type copySource struct {
	group *segment
	// singles are items that were encoded alone; entries name them.
	singles []cell
	entries []*resource.Entry
	next    int
}

// item returns what the source holds of an entry: its bytes, or its row.
func (s *copySource) item(e *resource.Entry, separator int) ([]byte, Row) {
	for s.next < len(s.entries) && s.entries[s.next].Key < e.Key {
		s.next++
	}
	if s.next >= len(s.entries) || s.entries[s.next] != e {
		return nil, nil
	}
	if s.group != nil {
		if s.group.rows != nil {
			return nil, s.group.rows[s.next]
		}
		return s.group.items(s.next, s.next+1, separator), nil
	}
	if s.singles != nil {
		if w := s.singles[s.next].load(); w != nil {
			return w.single()
		}
	}
	return nil, nil
}

// single is the item of a wire that has only that.
func (seg *segment) single() ([]byte, Row) {
	if seg.rows != nil {
		return nil, seg.rows[0]
	}
	return seg.bytes, nil
}

// encode makes a segment, copying what sources already hold.
func (f *Form) encode(entries []*resource.Entry, hint int, from ...*copySource) (*segment, error) {
	w := &segment{}
	if f.cfg.Row != nil {
		w.rows = make([]Row, 0, len(entries))
	} else {
		w.ends = make([]uint32, 0, len(entries))
	}
	b := builders.Get().(*builder)
	defer b.release()
	if hint > 0 {
		w.bytes = make([]byte, 0, hint)
	} else {
		w.bytes = b.segment
	}
	separator := f.cfg.Framing.separator()
	for i, e := range entries {
		if i > 0 && w.rows == nil {
			w.bytes = append(w.bytes, separator...)
		}
		if err := f.encodeItem(w, e, &b.item, from); err != nil {
			return nil, fmt.Errorf("encode segment: %w", err)
		}
	}
	w.size = int64(len(w.bytes))
	switch grown := cap(w.bytes); {
	case hint == 0 && grown <= builderSize:
		b.segment = w.bytes[:0]
		w.bytes = bytes.Clone(w.bytes)
	case grown-len(w.bytes) > len(w.bytes)/32:
		// A segment lives long; what append grew in advance does not pay.
		w.bytes = bytes.Clone(w.bytes)
	}
	return w, nil
}

// builder is room to encode in. Without it most garbage of a cold LIST would be of
// buffers that grow.
type builder struct {
	segment []byte
	item    bytes.Buffer
}

// builderSize is the largest segment, and the largest item, that a builder keeps the room
// of. etcd stores objects of up to 1.5 MB by default.
const builderSize = 2 << 20

var builders = sync.Pool{New: func() any { return new(builder) }}

func (b *builder) release() {
	if b.item.Cap() <= builderSize {
		builders.Put(b)
	}
}

func (f *Form) encodeItem(w *segment, e *resource.Entry, scratch *bytes.Buffer, from []*copySource) error {
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
		w.rows = append(w.rows, row)
	case item != nil:
		w.bytes = append(w.bytes, item...)
	default:
		w.bytes, err = f.appendItem(w.bytes, e, scratch)
	}
	if w.rows == nil {
		w.ends = append(w.ends, uint32(len(w.bytes)))
	}
	return err
}

// deflated compresses a plain wire for clients that accept gzip.
func (seg *segment) deflated() (*segment, error) {
	b, err := deflate(seg.bytes)
	if err != nil {
		return nil, err
	}
	return &segment{bytes: b, crc: crc32.ChecksumIEEE(seg.bytes), size: seg.size}, nil
}

// itemSizes are the sizes of items without separators between them.
func (seg *segment) itemSizes() []uint32 {
	sizes := make([]uint32, len(seg.ends))
	for i, end := range seg.ends {
		sizes[i] = end
		if i > 0 {
			sizes[i] -= seg.ends[i-1]
		}
	}
	return sizes
}

// zipped compresses a plain wire for clients that accept zstd, and to keep it.
func (seg *segment) zipped() *segment {
	return &segment{bytes: zip(seg.bytes), ends: seg.ends, size: seg.size}
}

// unzipped is the plain wire of a zipped one.
func (seg *segment) unzipped() (*segment, error) {
	b, err := unzip(seg.bytes, make([]byte, 0, seg.size))
	if err != nil {
		return nil, err
	}
	return &segment{bytes: b, ends: seg.ends, size: seg.size}, nil
}

// unzippedFor calls use with the plain wire of a zipped one, in a buffer that is
// used again.
func (seg *segment) unzippedFor(use func(*segment) error) error {
	buf := unzipBuffers.Get().(*[]byte)
	defer unzipBuffers.Put(buf)
	b, err := unzip(seg.bytes, (*buf)[:0])
	if err != nil {
		return err
	}
	*buf = b
	return use(&segment{bytes: b, ends: seg.ends, size: seg.size})
}
