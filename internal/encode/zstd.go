package encode

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Zstandard frames that follow one another are one stream (RFC 8878, 3), so
// segments that were compressed apart can be sent as they are. They also keep
// plain bytes when there is no room for those: they unpack ten times faster than
// an object is encoded (docs/bench/list.md).

// codec is the process's, because its memory grows with each encoder and not
// with their use. EncodeAll and DecodeAll are safe for concurrent use.
var codec = sync.OnceValue(func() *zstdCodec {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithWindowSize(zstdWindow), zstd.WithSingleSegment(false))
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

// zstdWindow covers a segment and stays below the 8 MiB that every client must
// support (RFC 9659).
const zstdWindow = 1 << 20

// zip compresses src into one frame.
func zip(src []byte) []byte {
	scratch := scratches.Get().(*bytes.Buffer)
	defer putScratch(scratch)
	// It must have room for all: EncodeAll would grow a buffer of its own.
	scratch.Grow(len(src) + len(src)/64 + 64)
	out := codec().encoder.EncodeAll(src, scratch.AvailableBuffer())
	return bytes.Clone(out)
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
