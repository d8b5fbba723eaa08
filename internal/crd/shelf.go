package crd

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// shelf bounds the memory of what is compiled. Sizes are estimates. What was used
// last stays longest; what nobody used for the time of idle goes anyway.
type shelf struct {
	limit int64
	idle  time.Duration
	clock clock.PassiveClock

	// mu is a leaf.
	mu struct {
		sync.Mutex
		things map[*shelved]bool
		bytes  int64
	}
}

// shelved is something compiled. Its size is guarded by the shelf's lock.
type shelved struct {
	size int64
	used atomic.Int64
	// drop forgets it, unless it is in use. It takes no lock.
	drop func() bool
}

func newShelf(limit int64, idle time.Duration, c clock.PassiveClock) *shelf {
	s := &shelf{limit: limit, idle: idle, clock: c}
	s.mu.things = map[*shelved]bool{}
	return s
}

// touch notes that something is used.
func (s *shelf) touch(t *shelved) { t.used.Store(s.clock.Now().UnixNano()) }

// put adds to the size of something, which is put on the shelf if it is not
// there, and makes room for it.
func (s *shelf) put(t *shelved, size int64) {
	s.touch(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.size += size
	s.mu.bytes += size
	if !s.mu.things[t] {
		s.mu.things[t] = true
		s.mu.bytes += t.size - size
	}
	if s.mu.bytes <= s.limit {
		return
	}
	for _, old := range s.byUseLocked() {
		if s.mu.bytes <= s.limit {
			return
		}
		if old != t && old.drop() {
			s.removeLocked(old)
		}
	}
}

// remove takes something off, which need not be there.
func (s *shelf) remove(t *shelved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(t)
}

func (s *shelf) removeLocked(t *shelved) {
	if s.mu.things[t] {
		delete(s.mu.things, t)
		s.mu.bytes -= t.size
	}
	t.size = 0
}

// sweep drops what is idle.
func (s *shelf) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.clock.Now().Add(-s.idle).UnixNano()
	for _, t := range s.byUseLocked() {
		if t.used.Load() > since {
			return
		}
		if t.drop() {
			s.removeLocked(t)
		}
	}
}

// byUseLocked lists what was used longest ago first.
func (s *shelf) byUseLocked() []*shelved {
	type use struct {
		*shelved
		at int64
	}
	uses := make([]use, 0, len(s.mu.things))
	for t := range s.mu.things {
		uses = append(uses, use{t, t.used.Load()})
	}
	slices.SortFunc(uses, func(a, b use) int { return int(min(max(a.at-b.at, -1), 1)) })
	sorted := make([]*shelved, len(uses))
	for i, u := range uses {
		sorted[i] = u.shelved
	}
	return sorted
}

// size is what some things take that may be on the shelf, in bytes.
func (s *shelf) size(things ...*shelved) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bytes int64
	for _, t := range things {
		if s.mu.things[t] {
			bytes += t.size
		}
	}
	return bytes
}

// held tells how much there is.
func (s *shelf) held() (things int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.things), s.mu.bytes
}
