package crd

import (
	"sync"
	"sync/atomic"
)

// compiledSlot holds something that is made on first need, by one for all who ask for it,
// and may be dropped and made again.
type compiledSlot[T any] struct {
	cache *compiledCache
	entry compiledEntry
	value atomic.Pointer[T]
	build sync.Mutex
}

// newCompiledSlot makes an empty slot. What it holds is not dropped while busy, and stays
// for as long as the slot does when it is kept.
func newCompiledSlot[T any](s *compiledCache, busy, kept func() bool) *compiledSlot[T] {
	made := &compiledSlot[T]{cache: s}
	made.entry.drop = func() bool {
		switch {
		case kept():
			return true // the shelf need not care
		case busy():
			return false
		}
		made.value.Store(nil)
		return true
	}
	return made
}

// get returns the value, made now if need be. made says its size in bytes.
func (s *compiledSlot[T]) get(make func() (value *T, size int64, err error)) (*T, error) {
	if v := s.value.Load(); v != nil {
		s.cache.touch(&s.entry)
		return v, nil
	}
	s.build.Lock()
	defer s.build.Unlock()
	if v := s.value.Load(); v != nil {
		return v, nil
	}
	v, size, err := make()
	if err != nil {
		return nil, err
	}
	s.value.Store(v)
	s.cache.put(&s.entry, size)
	return v, nil
}

// empty reports whether there is no value now.
func (s *compiledSlot[T]) empty() bool { return s.value.Load() == nil }
