package crd

import (
	"sync"
	"sync/atomic"
)

// compiledSlot holds a value that is compiled when it is first needed, by one goroutine
// for all that need it. A compiledCache may drop the value, and the next reader compiles
// it again.
//
// Readers of a value that is there pay an atomic load and a store of the time. Readers
// that come while it is compiled wait for the lock. They have no deadline, as compiling
// has none, and if it fails or panics the next of them tries again. singleflight would
// add a map and a key, and hand one caller's panic to all others.
type compiledSlot[T any] struct {
	cache *compiledCache
	entry compiledEntry
	value atomic.Pointer[T]
	// build is held while a value is compiled. compiledCache.mu is taken under it.
	build sync.Mutex
}

// newCompiledSlot makes an empty slot. Its value is not dropped while busy returns true.
// Once retired returns true the value cannot be compiled again: it leaves the cache, and
// the slot keeps it.
func newCompiledSlot[T any](c *compiledCache, busy, retired func() bool) *compiledSlot[T] {
	s := &compiledSlot[T]{cache: c}
	s.entry.drop = func() bool {
		switch {
		case retired():
			return true
		case busy():
			return false
		}
		s.value.Store(nil)
		return true
	}
	return s
}

// get returns the value, which compile makes if there is none. compile returns the
// value's size in bytes, too.
func (s *compiledSlot[T]) get(compile func() (value *T, size int64, err error)) (*T, error) {
	if v := s.value.Load(); v != nil {
		s.cache.touch(&s.entry)
		return v, nil
	}
	s.build.Lock()
	defer s.build.Unlock()
	if v := s.value.Load(); v != nil {
		return v, nil
	}
	v, size, err := compile()
	if err != nil {
		return nil, err
	}
	s.value.Store(v)
	s.cache.put(&s.entry, size)
	return v, nil
}

// empty reports whether there is no value now.
func (s *compiledSlot[T]) empty() bool { return s.value.Load() == nil }
