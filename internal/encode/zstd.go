package encode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// An answer with zstd is one frame, since many decoders end with the first. Its blocks
// are those of segments that were compressed apart: a header that suits all of them
// stands in front, an empty last block ends it (RFC 8878, 3.1.1).
//
// The blocks of a segment may stand behind any others only if they use nothing that
// a frame starts with. Tables of codes cannot be used before a block brings them, and
// distances stay within the segment. What is left are the repeat offsets, which a frame
// starts with as 1, 4 and 8. This encoder uses none before three sequences of the same
// block have set all of them; the reference encoder does, in half of all segments.
// FuzzZstdFrame guards that. Raw blocks leave the offsets as they are.
//
// Segments are also kept like this when there is no room for plain bytes: they unpack
// ten times faster than an object is encoded (docs/bench/list.md).

// codec is the process's, because its memory grows with each encoder and not
// with their use. EncodeAll and DecodeAll are safe for concurrent use.
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

// zstdWindowLog is that of a window of 1 MiB. It covers a segment and stays below the
// 8 MiB that every client must support (RFC 9659).
const zstdWindowLog = 20

var (
	// zstdHeader has the magic number, a descriptor that promises neither a size nor a
	// checksum, and the window.
	zstdHeader = []byte{0x28, 0xb5, 0x2f, 0xfd, 0, (zstdWindowLog - 10) << 3}
	// zstdEnd is a raw block of nothing that is the last.
	zstdEnd = []byte{zstdLast, 0, 0}
)

const (
	// zstdBlockHeader is the size of a block's header: in little endian the mark of the
	// last block in one bit, the type in two, and the size.
	zstdBlockHeader = 3
	zstdLast        = 1
	zstdTypeShift   = 1
	zstdRLE         = 1
	zstdSizeShift   = 3
)

// zip compresses src into one frame of open blocks, which zstdEnd ends. Its header tells
// the size, which makes unpacking faster.
func zip(src []byte) []byte {
	scratch := scratchBuffers.Get().(*bytes.Buffer)
	defer putScratch(scratch)
	// It must have room for all: EncodeAll would grow a buffer of its own.
	scratch.Grow(len(src) + len(src)/64 + 64)
	frame := codec().encoder.EncodeAll(src, scratch.AvailableBuffer())
	openBlocks(frame)
	out := append(make([]byte, 0, len(frame)+len(zstdEnd)), frame...)
	return append(out, zstdEnd...)
}

// blocksOf are the open blocks of what zip made.
func blocksOf(frame []byte) []byte {
	return frame[zstdHeaderSize(frame) : len(frame)-len(zstdEnd)]
}

// appendBlocks compresses src into open blocks, of which none is the last.
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

// appendBlockHeader begins a raw block that is not the last.
func appendBlockHeader(dst []byte, size int) []byte {
	return append(dst, byte(size<<zstdSizeShift), byte(size>>(8-zstdSizeShift)), byte(size>>(16-zstdSizeShift)))
}

// openBlocks returns the blocks of a frame that the encoder made, without the mark on the
// last one.
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

// zstdHeaderSize is that of the encoder's frames, which have no dictionary and no
// single segment: the magic number, the descriptor, the window and the size.
func zstdHeaderSize(frame []byte) int {
	sizes := [4]int{0, 2, 4, 8}
	return len(zstdHeader) + sizes[frame[4]>>6]
}

// unzip appends what a frame holds.
func unzip(frame, dst []byte) ([]byte, error) {
	out, err := codec().decoder.DecodeAll(frame, dst)
	if err != nil {
		return nil, fmt.Errorf("unpack segment: %w", err)
	}
	return out, nil
}

// unzipBuffers are as large as segments get, which the cache's leaves bound.
var unzipBuffers = sync.Pool{New: func() any { return new([]byte) }}
