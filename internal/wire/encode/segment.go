package encode

import (
	"hash/crc32"
	"time"
)

// Row is a row of a table. Its bytes depend on the time of the request, because cells tell
// ages.
type Row interface {
	// Append appends the row as it reads at now.
	Append(dst []byte, now time.Time) []byte
	// Size is the number of bytes that the row takes in memory.
	Size() int
}

// segment is the wire bytes of some neighbouring items in one form and one coding. It has
// the items of a whole group, or one item that was asked for alone. It is immutable, owns
// its bytes, and is shared by all readers. The segment of a passedSegment, and that of
// useZstdDecompressed, are for one reader: their bytes are in pooled buffers.
type segment struct {
	// bytes are the items with separators between them, plain or compressed. A table's
	// segment has rows instead.
	bytes []byte
	rows  []Row
	// ends say where each item ends in the plain bytes. A segment that was compressed for
	// clients alone has none.
	ends []uint32
	// size is the length of the plain bytes.
	size int64
	// crc is the checksum of the plain bytes. Only deflated segments have it.
	crc uint32
	// sizes are the lengths of the frames in a deflated segment of a watch.
	sizes []uint32
}

// segmentOverhead is about what a segment takes in memory besides its slices.
const segmentOverhead = 96

// cost returns the number of bytes that the segment takes in memory.
func (seg *segment) cost() int64 {
	n := int64(cap(seg.bytes)+4*cap(seg.ends)+4*cap(seg.sizes)+16*cap(seg.rows)) + segmentOverhead
	for _, r := range seg.rows {
		n += int64(r.Size())
	}
	return n
}

// large reports whether the objects are so large that encoding them costs little more than
// copying them. Their plain bytes are not worth keeping.
func (seg *segment) large() bool { return large(seg.size, max(len(seg.ends), len(seg.rows))) }

func large(size int64, objects int) bool {
	const largeObject = 64 << 10
	return size > largeObject*int64(objects)
}

// items returns the bytes of items from..to-1 with the separators between them. separatorLen is
// the length of a separator.
func (seg *segment) items(from, to, separatorLen int) []byte {
	start := 0
	if from > 0 {
		start = int(seg.ends[from-1]) + separatorLen
	}
	return seg.bytes[start:seg.ends[to-1]]
}

// single returns the only item of a segment of one.
func (seg *segment) single() ([]byte, Row) {
	if seg.rows != nil {
		return nil, seg.rows[0]
	}
	return seg.bytes, nil
}

// itemSizes returns the lengths of the items, without separators. Only segments of watches
// are asked, which have no separators.
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

// deflated compresses a plain segment for clients that accept gzip.
func (seg *segment) deflated() *segment {
	return &segment{bytes: deflated(seg.bytes), crc: crc32.ChecksumIEEE(seg.bytes), size: seg.size}
}

// zstdCompressed compresses a plain segment, for clients that accept zstd and for a tight
// budget.
func (seg *segment) zstdCompressed() *segment {
	return &segment{bytes: zip(seg.bytes), ends: seg.ends, size: seg.size}
}

// zstdDecompressed returns the plain segment of a zstd one.
func (seg *segment) zstdDecompressed() (*segment, error) {
	b, err := unzip(seg.bytes, make([]byte, 0, seg.size))
	if err != nil {
		return nil, err
	}
	return &segment{bytes: b, ends: seg.ends, size: seg.size}, nil
}

// useZstdDecompressed calls use with the plain segment of a zstd one. Its bytes are in a
// pooled buffer, and are valid until use returns.
func (seg *segment) useZstdDecompressed(use func(*segment) error) error {
	buf := unzipBuffers.Get().(*[]byte)
	defer unzipBuffers.Put(buf)
	b, err := unzip(seg.bytes, (*buf)[:0])
	if err != nil {
		return err
	}
	*buf = b
	return use(&segment{bytes: b, ends: seg.ends, size: seg.size})
}
