package encode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/flate"

	"github.com/millrace/millrace/internal/wire/deflate"
)

// Segments are compressed apart from one another and end on a byte boundary (a sync flush),
// by package deflate. So any sequence of them under one gzip header is a valid stream (RFC
// 1951, 3.2.4; RFC 1952). Bytes that are too few to be worth compressing are sent as a stored
// block. The library compresses frames of watches and pieces of documents.

// deflateLevel is the library's level for frames and pieces.
const deflateLevel = 3

// gzipHeader has no name and no time. Go's compress/gzip writes the same extra flags and
// operating system at its fastest level.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}

// deflateLastBlock is an empty final block with fixed codes.
var deflateLastBlock = []byte{0x03, 0x00}

// deflateEmptyBlock is an empty stored block, as a sync flush writes it.
var deflateEmptyBlock = []byte{0, 0, 0, 0xff, 0xff}

// maxStoredBlock is the largest stored block in bytes (RFC 1951, 3.2.4).
const maxStoredBlock = 1<<16 - 1

// pieceDeflaters compress pieces, which refer to nothing before them. frameDeflaters compress
// frames, which may refer to the frame before. They have a pool of their own, because Reset
// does not take the dictionary from a writer that once had one.
var (
	pieceDeflaters = deflaterPool()
	frameDeflaters = deflaterPool()
)

func deflaterPool() *sync.Pool {
	return &sync.Pool{New: func() any {
		w, err := flate.NewWriter(nil, deflateLevel)
		if err != nil {
			panic(err) // the level is a constant
		}
		return w
	}}
}

// deflated compresses src to blocks that end on a byte boundary and refer to nothing before
// them. The result is the caller's.
func deflated(src []byte) []byte {
	out := scratchBuffers.Get().(*bytes.Buffer)
	defer putScratch(out)
	out.Write(deflate.Append(out.AvailableBuffer(), src))
	return bytes.Clone(out.Bytes())
}

// deflateWindow is how many bytes deflate can refer back (RFC 1951).
const deflateWindow = 32 << 10

// deflateAfter compresses src for a stream that ends with the bytes of before. The result
// is the caller's.
func deflateAfter(src, before []byte) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(len(src)/6 + 64)
	w := frameDeflaters.Get().(*flate.Writer)
	defer frameDeflaters.Put(w)
	w.ResetDict(&out, before)
	if _, err := w.Write(src); err != nil {
		return nil, fmt.Errorf("deflate frame: %w", err)
	}
	if err := w.Flush(); err != nil {
		return nil, fmt.Errorf("deflate frame: %w", err)
	}
	return bytes.Clone(out.Bytes()), nil
}

// appendStored appends src as stored blocks.
func appendStored(dst, src []byte) []byte {
	for len(src) > 0 {
		n := min(len(src), maxStoredBlock)
		dst = append(dst, 0)
		dst = binary.LittleEndian.AppendUint16(dst, uint16(n))
		dst = binary.LittleEndian.AppendUint16(dst, ^uint16(n))
		dst = append(dst, src[:n]...)
		src = src[n:]
	}
	return dst
}

// gzipSum is the checksum and length of the plain bytes of a gzip stream so far. The zero
// value is an empty stream's.
type gzipSum struct {
	crc  uint32
	size int64
}

// addBytes adds src.
func (s *gzipSum) addBytes(src []byte) {
	s.crc = crc32.Update(s.crc, crc32.IEEETable, src)
	s.size += int64(len(src))
}

// addSum adds size bytes whose checksum is crc.
func (s *gzipSum) addSum(crc uint32, size int64) {
	s.crc = combineCRC32(s.crc, crc, size)
	s.size += size
}

// addFrame adds a frame.
func (s *gzipSum) addFrame(f frameSum) {
	s.crc = crcMultiply(s.crc, f.power) ^ f.crc
	s.size += f.size
}

// appendTrailer appends the end of the stream.
func (s *gzipSum) appendTrailer(dst []byte) []byte {
	dst = append(dst, deflateLastBlock...)
	dst = binary.LittleEndian.AppendUint32(dst, s.crc)
	return binary.LittleEndian.AppendUint32(dst, uint32(s.size))
}
