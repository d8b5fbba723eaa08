package entry

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
)

// Packing compresses the values of one resource with a dictionary that is made of some of
// them. Objects of a kind are alike: each shrinks to a quarter or a seventh of its bytes,
// and still unpacks alone, in microseconds (docs/bench/resident.md). Compressing many
// objects together would save more, but a read of one would unpack all.
//
// A Packing is immutable and safe for concurrent use.
type Packing struct{ dictionary *s2.Dict }

const (
	// dictionaryBytes bounds a dictionary. A larger one compresses little better, and costs
	// memory that small resources do not win back.
	dictionaryBytes = 32 << 10
	// maxScratch is the size of the largest buffer that is kept for unpacking. By default
	// etcd stores objects of up to 1.5 MB.
	maxScratch = 2 << 20
)

var errFewSamples = errors.New("too few samples")

// NewPacking makes a dictionary of samples, which it copies. They should be spread over
// the resource.
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

// MaxSampleBytes returns the size of all samples beyond which NewPacking ignores them.
func MaxSampleBytes() int { return dictionaryBytes }

// Pack compresses the entry's value, unless that does not make it smaller. It must be
// called before others can see the entry. A nil packing does nothing.
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

// Size returns the length of the uncompressed value.
func (e *Entry) Size() int {
	if e.packing == nil {
		return len(e.Value)
	}
	return int(e.size)
}

// Read calls use with the uncompressed value. The bytes are valid until use returns.
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

// scratch is a pooled buffer.
type scratch struct{ buf []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func takeScratch() *scratch { return scratches.Get().(*scratch) }

func (s *scratch) release() {
	if cap(s.buf) <= maxScratch {
		scratches.Put(s)
	}
}
