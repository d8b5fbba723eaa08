package resource

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Packing compresses the values of one resource with a dictionary of some of
// them. Objects of a kind are alike, so each shrinks to a sixth or a tenth of
// its bytes and still unpacks alone, in microseconds (docs/bench/resident.md).
//
// A Packing is immutable and safe for concurrent use.
type Packing struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

const (
	// dictionaryBytes bounds a dictionary: beyond, ratios grow slower than
	// small resources can pay for.
	dictionaryBytes = 32 << 10
	dictionaryID    = 1
	// packingWindow reaches behind any object of Kubernetes' usual sizes into
	// the dictionary.
	packingWindow = 256 << 10
	// maxScratch is the largest buffer that is kept for unpacking: etcd stores objects
	// of up to 1.5 MB by default.
	maxScratch = 2 << 20
)

var errNoSamples = errors.New("no samples")

// NewPacking makes a dictionary of samples, which should be spread over the
// resource. It copies them.
func NewPacking(samples [][]byte) (*Packing, error) {
	var dictionary []byte
	for _, s := range samples {
		dictionary = append(dictionary, s[:min(len(s), dictionaryBytes-len(dictionary))]...)
	}
	if len(dictionary) == 0 {
		return nil, fmt.Errorf("make dictionary: %w", errNoSamples)
	}
	encoder, err := zstd.NewWriter(nil,
		zstd.WithEncoderDictRaw(dictionaryID, dictionary), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(packingWindow), zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("make dictionary: %w", err)
	}
	decoder, err := zstd.NewReader(nil,
		zstd.WithDecoderDictRaw(dictionaryID, dictionary),
		zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("make dictionary: %w", err)
	}
	return &Packing{encoder: encoder, decoder: decoder}, nil
}

// SampleBytes is how many bytes of samples a dictionary takes.
func SampleBytes() int { return dictionaryBytes }

// Pack compresses the entry's value, unless that would not make it smaller. It
// is called before the entry is handed on.
func (e *Entry) Pack(p *Packing) {
	if p == nil || e.packing != nil || len(e.Value) == 0 {
		return
	}
	scratch := takeScratch()
	defer scratch.release()
	scratch.buf = p.encoder.EncodeAll(e.Value, scratch.buf[:0])
	if len(scratch.buf) >= len(e.Value) {
		return
	}
	e.size = int32(len(e.Value))
	e.Value = append(make([]byte, 0, len(scratch.buf)), scratch.buf...)
	e.packing = p
}

// Packed reports whether Value is compressed.
func (e *Entry) Packed() bool { return e.packing != nil }

// Size is the length of the object in storage form.
func (e *Entry) Size() int {
	if e.packing == nil {
		return len(e.Value)
	}
	return int(e.size)
}

// Read calls use with the object in storage form. The bytes are only good
// until use returns.
func (e *Entry) Read(use func(value []byte) error) error {
	if e.packing == nil {
		return use(e.Value)
	}
	scratch := takeScratch()
	defer scratch.release()
	plain, err := e.packing.decoder.DecodeAll(e.Value, scratch.buf[:0])
	if err != nil {
		return fmt.Errorf("unpack %s: %w", e.Key, err)
	}
	scratch.buf = plain
	return use(plain)
}

// scratch is a buffer that is used again.
type scratch struct{ buf []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func takeScratch() *scratch { return scratches.Get().(*scratch) }

func (s *scratch) release() {
	if cap(s.buf) <= maxScratch {
		scratches.Put(s)
	}
}
