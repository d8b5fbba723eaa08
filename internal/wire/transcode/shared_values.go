package transcode

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// sharedValues remembers what walks made of values that occur in many objects: the
// containers of a workload's pods, their owners, tolerations and managed fields. A value that
// is found is compared and copied, which takes a tenth of a walk through it.
//
// What a walk makes of a value depends on its field and its bytes alone, so an answer never
// expires. Values at the top of an object are left out: few objects share them, and secrets
// are among them.
//
// A value is kept when it comes a second time. It has two places in a table, by its hash, and
// replaces what is there. If the values have more bytes than maxSharedBytes, all are
// forgotten. Lookups take no lock. The zero value is ready.
type sharedValues struct {
	slots [sharedSlots]atomic.Pointer[sharedValue]
	// seen has parts of the hashes of values that came once.
	seen [seenSlots]atomic.Uint32

	mu struct {
		sync.Mutex
		bytes int
	}
}

// sharedValue is a value with what a walk made of it. It is immutable.
type sharedValue struct {
	field *field
	// whole says that the value is all of a list or a map.
	whole bool
	// incomplete and hash are what the walk adds to its state.
	incomplete bool
	hash       uint64
	// bytes are the stored value, and after it what was written.
	bytes  []byte
	stored int
}

const (
	sharedSlots = 1 << 13
	seenSlots   = 1 << 11
	// A walk of a value below minShared bytes is as fast as a lookup. Values above maxShared
	// are walked part by part, so that one change does not cost all of them.
	minShared = 64
	maxShared = 8 << 10
	// maxSharedBytes bounds the bytes of all values.
	maxSharedBytes = 8 << 20
	// sharedOverhead is about what a value takes in memory besides its bytes.
	sharedOverhead = 96
)

// places returns the two slots of a hash.
func (s *sharedValues) places(hash uint64) [2]*atomic.Pointer[sharedValue] {
	return [2]*atomic.Pointer[sharedValue]{&s.slots[hash%sharedSlots], &s.slots[hash>>32%sharedSlots]}
}

// find returns a value, or nil.
func (s *sharedValues) find(hash uint64, f *field, stored []byte, whole bool) *sharedValue {
	for _, place := range s.places(hash) {
		v := place.Load()
		if v != nil && v.field == f && v.stored == len(stored) && v.whole == whole && string(v.bytes[:v.stored]) == string(stored) {
			return v
		}
	}
	return nil
}

// again reports whether a value that was not found has probably come before.
func (s *sharedValues) again(hash uint64) bool {
	seen, mark := &s.seen[hash>>16%seenSlots], uint32(hash>>32)|1
	if seen.Load() == mark {
		return true
	}
	seen.Store(mark)
	return false
}

// add keeps a value.
func (s *sharedValues) add(hash uint64, v *sharedValue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	places := s.places(hash)
	place := places[0]
	if place.Load() != nil {
		place = places[1]
	}
	if old := place.Load(); old != nil {
		s.mu.bytes -= old.cost()
	}
	place.Store(v)
	if s.mu.bytes += v.cost(); s.mu.bytes > maxSharedBytes {
		for i := range s.slots {
			s.slots[i].Store(nil)
		}
		s.mu.bytes = 0
	}
}

func (v *sharedValue) cost() int { return cap(v.bytes) + sharedOverhead }

// shared writes a message, raw JSON, or with whole all of a list or map. It adds the value to
// the fingerprint as one number, which does not depend on what is around the value.
func (w *walker) shared(f *field, stored []byte, whole bool) bool {
	if f.top || len(stored) < minShared || len(stored) > maxShared {
		return w.apart(f, stored, whole)
	}
	hash := maphash.Bytes(w.seed, stored) ^ f.token
	if v := w.values.find(hash, f, stored, whole); v != nil {
		w.dst = append(w.dst, v.bytes[v.stored:]...)
		w.incomplete = w.incomplete || v.incomplete
		w.mix(v.hash)
		return true
	}
	if !w.values.again(hash) {
		return w.apart(f, stored, whole)
	}
	outer, start, incomplete := w.hash, len(w.dst), w.incomplete
	w.incomplete = false
	if !w.walkApart(f, stored, whole) {
		return false
	}
	written := w.dst[start:]
	v := &sharedValue{field: f, whole: whole, incomplete: w.incomplete, hash: w.hash, stored: len(stored)}
	v.bytes = append(append(make([]byte, 0, len(stored)+len(written)), stored...), written...)
	w.values.add(hash, v)
	w.hash, w.incomplete = outer, w.incomplete || incomplete
	w.mix(v.hash)
	return true
}

// apart is shared for a value that is not to be remembered.
func (w *walker) apart(f *field, stored []byte, whole bool) bool {
	outer := w.hash
	if !w.walkApart(f, stored, whole) {
		return false
	}
	inner := w.hash
	w.hash = outer
	w.mix(inner)
	return true
}

// walkApart walks through a value with a fingerprint of its own.
func (w *walker) walkApart(f *field, stored []byte, whole bool) bool {
	w.hash = f.token
	switch {
	case whole && f.arity == list:
		return w.list(f, stored)
	case whole:
		return w.mapped(f, stored)
	case f.value == rawValue:
		return w.raw(stored)
	}
	return w.object(f.message, f.opening, stored)
}
