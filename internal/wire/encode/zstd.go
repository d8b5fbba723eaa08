package encode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// An answer with zstd is one frame, because many decoders end with the first. The frame is
// composed of the blocks of segments that were compressed apart. It has one header that
// suits all of them, their blocks, and an empty last block (RFC 8878, 3.1.1).
//
// Blocks of a segment may only follow the blocks of another if they do not depend on the
// state that a frame starts with. Code tables are no problem, because a block must bring
// its tables before it can refer to them. Nor are distances, which stay within the segment.
//
// What remains are the three repeat offsets, which a frame starts with as 1, 4 and 8. This
// encoder does not use them before three sequences of the same block have set all of them.
// The reference encoder does, in half of all segments. FuzzZstdFrame guards this. Raw
// blocks leave the offsets as they are.
//
// Segments are also kept in this form when the budget is tight. They unpack ten times
// faster than an object is encoded (docs/bench/list.md).

// codec is shared by the process, because each encoder has much memory of its own.
// EncodeAll and DecodeAll are safe for concurrent use.
var codec = sync.OnceValue(func() *zstdCodec {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true),
		zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithWindowSize(1<<zstdWindowLog), zstd.WithSingleSegment(false))
	if err != nil {
		panic(err) // the options are constants
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)))
	if err != nil {
		panic(err)
	}
	return &zstdCodec{encoder, decoder}
})

type zstdCodec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// zstdWindowLog is the logarithm of a window of 1 MiB. The window covers a segment, and is
// smaller than the 8 MiB that every client must support (RFC 9659).
const zstdWindowLog = 20

var (
	// zstdHeader has the magic number, a descriptor without size and checksum, and the
	// window.
	zstdHeader = []byte{0x28, 0xb5, 0x2f, 0xfd, 0, (zstdWindowLog - 10) << 3}
	// zstdEnd is an empty raw block, marked as the last.
	zstdEnd = []byte{zstdLast, 0, 0}
)

const (
	// zstdBlockHeader is the size in bytes of a block's header. In little endian it has
	// the mark of the last block in one bit, the type in two, and the size.
	zstdBlockHeader = 3
	zstdLast        = 1
	zstdTypeShift   = 1
	zstdRLE         = 1
	zstdSizeShift   = 3
)

// zip compresses src to one frame whose last block is zstdEnd, so blocksOf can take the
// others out. The frame's header states the size, which makes unpacking faster.
func zip(src []byte) []byte {
	scratch := scratchBuffers.Get().(*bytes.Buffer)
	defer putScratch(scratch)
	// Without room for the whole result, EncodeAll would allocate a buffer of its own.
	scratch.Grow(len(src) + len(src)/64 + 64)
	frame := codec().encoder.EncodeAll(src, scratch.AvailableBuffer())
	openBlocks(frame)
	out := append(make([]byte, 0, len(frame)+len(zstdEnd)), frame...)
	return append(out, zstdEnd...)
}

// blocksOf returns the blocks of a frame that zip made, without the last one.
func blocksOf(frame []byte) []byte {
	return frame[zstdHeaderSize(frame) : len(frame)-len(zstdEnd)]
}

// appendBlocks appends src as blocks, none of which is marked as the last.
func appendBlocks(dst, src []byte) []byte {
	if len(src) <= maxUncompressed {
		dst = appendBlockHeader(dst, len(src))
		return append(dst, src...)
	}
	start := len(dst)
	dst = codec().encoder.EncodeAll(src, dst)
	blocks := openBlocks(dst[start:])
	return dst[:start+copy(dst[start:], blocks)]
}

// appendBlockHeader appends the header of a raw block that is not the last.
func appendBlockHeader(dst []byte, size int) []byte {
	return append(dst, byte(size<<zstdSizeShift), byte(size>>(8-zstdSizeShift)), byte(size>>(16-zstdSizeShift)))
}

// openBlocks removes the mark from the last block of a frame that the encoder made, in
// place, and returns the blocks.
func openBlocks(frame []byte) []byte {
	blocks := frame[zstdHeaderSize(frame):]
	for rest := blocks; ; {
		block := uint32(binary.LittleEndian.Uint16(rest)) | uint32(rest[2])<<16
		if block&zstdLast != 0 {
			rest[0] &^= zstdLast
			return blocks
		}
		size := int(block >> zstdSizeShift)
		if block>>zstdTypeShift&3 == zstdRLE {
			size = 1
		}
		rest = rest[zstdBlockHeader+size:]
	}
}

// zstdHeaderSize returns the size of a frame's header, for frames of this encoder. They
// have no dictionary and are not a single segment (RFC 8878, 3.1.1.1). So the header is
// the magic number, the descriptor, the window and the size.
func zstdHeaderSize(frame []byte) int {
	sizes := [4]int{0, 2, 4, 8}
	return len(zstdHeader) + sizes[frame[4]>>6]
}

// unzip appends the plain bytes of a frame to dst.
func unzip(frame, dst []byte) ([]byte, error) {
	out, err := codec().decoder.DecodeAll(frame, dst)
	if err != nil {
		return nil, fmt.Errorf("unpack segment: %w", err)
	}
	return out, nil
}

// unzipBuffers grow to the size of the largest segments, which the size of the cache's
// leaves bounds.
var unzipBuffers = sync.Pool{New: func() any { return new([]byte) }}
