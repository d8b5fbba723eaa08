package crd

import (
	"sync"
	"sync/atomic"
)

// slot holds something that is made on first need, by one for all who ask for it,
// and may be dropped and made again.
type slot[T any] struct {
	shelf   *shelf
	shelved shelved
	value   atomic.Pointer[T]
	build   sync.Mutex
}

// newSlot makes an empty slot. What it holds is not dropped while busy, and stays
// for as long as the slot does when it is kept.
func newSlot[T any](s *shelf, busy, kept func() bool) *slot[T] {
	made := &slot[T]{shelf: s}
	made.shelved.drop = func() bool {
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
func (s *slot[T]) get(make func() (value *T, size int64, err error)) (*T, error) {
	if v := s.value.Load(); v != nil {
		s.shelf.touch(&s.shelved)
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
	s.shelf.put(&s.shelved, size)
	return v, nil
}

// empty reports whether there is no value now.
func (s *slot[T]) empty() bool { return s.value.Load() == nil }
