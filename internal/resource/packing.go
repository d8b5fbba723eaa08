package resource

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
)

// Packing compresses the values of one resource with a dictionary of some of
// them. Objects of a kind are alike, so each shrinks to a fourth or a seventh of
// its bytes and still unpacks alone, in microseconds (docs/bench/resident.md).
//
// A Packing is immutable and safe for concurrent use.
type Packing struct{ dictionary *s2.Dict }

const (
	// dictionaryBytes bounds a dictionary: beyond, ratios grow slower than
	// small resources can pay for.
	dictionaryBytes = 32 << 10
	// maxScratch is the largest buffer that is kept for unpacking: etcd stores objects
	// of up to 1.5 MB by default.
	maxScratch = 2 << 20
)

var errFewSamples = errors.New("too few samples")

// NewPacking makes a dictionary of samples, which should be spread over the
// resource. It copies them.
func NewPacking(samples [][]byte) (*Packing, error) {
	var content []byte
	for _, s := range samples {
		content = append(content, s[:min(len(s), dictionaryBytes-len(content))]...)
	}
	dictionary := s2.MakeDict(content, nil)
	if dictionary == nil {
		return nil, fmt.Errorf("make dictionary of %d bytes: %w", len(content), errFewSamples)
	}
	return &Packing{dictionary}, nil
}

// MaxSampleBytes is how many bytes of samples a dictionary takes.
func MaxSampleBytes() int { return dictionaryBytes }

// Pack compresses the entry's value, unless that would not make it smaller. It
// is called before the entry is handed on.
func (e *Entry) Pack(p *Packing) {
	if p == nil || e.packing != nil || len(e.Value) == 0 {
		return
	}
	scratch := takeScratch()
	defer scratch.release()
	scratch.buf = p.dictionary.Encode(scratch.buf, e.Value)
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
	plain, err := e.packing.dictionary.Decode(scratch.buf, e.Value)
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
