package crd

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// compiledCache bounds the memory of what is compiled. Sizes are estimates. For room it drops
// what was used longest ago of a few things at random: what is used often stays, and
// of more than fits that is used in turn, most is still there when its turn comes.
// What nobody used for the time of idle goes anyway.
type compiledCache struct {
	limit int64
	idle  time.Duration
	clock clock.PassiveClock

	// mu is a leaf.
	mu struct {
		sync.Mutex
		entries []*compiledEntry
		bytes   int64
	}
}

// compiledEntry is something compiled. Its size and place are guarded by the shelf's lock.
type compiledEntry struct {
	size int64
	// position is one more than where it stands, 0 if it is not on the shelf.
	position int
	used     atomic.Int64
	// drop forgets it, unless it is in use. It takes no lock.
	drop func() bool
}

func newCompiledCache(limit int64, idle time.Duration, c clock.PassiveClock) *compiledCache {
	return &compiledCache{limit: limit, idle: idle, clock: c}
}

// touch notes that something is used.
func (s *compiledCache) touch(t *compiledEntry) { t.used.Store(s.clock.Now().UnixNano()) }

// put adds to the size of something, which is put on the shelf if it is not
// there, and makes room for it.
func (s *compiledCache) put(t *compiledEntry, size int64) {
	s.touch(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.size += size
	s.mu.bytes += size
	if t.position == 0 {
		s.mu.entries = append(s.mu.entries, t)
		t.position = len(s.mu.entries)
	}
	s.evictLocked(t)
}

const (
	// evictionChoices is how many things are looked at to drop one.
	evictionChoices = 2
	// maxBusyChoices is how many of those that were chosen may be in use.
	maxBusyChoices = 16
)

// evictLocked drops things until the others fit, but for one. If those it comes
// upon are in use there will be too many for a while.
func (s *compiledCache) evictLocked(but *compiledEntry) {
	for busy := 0; s.mu.bytes > s.limit && busy < maxBusyChoices; {
		if old := s.evictionCandidateLocked(); old != but && old.drop() {
			s.removeLocked(old)
		} else {
			busy++
		}
	}
}

// evictionCandidateLocked chooses a thing to drop.
func (s *compiledCache) evictionCandidateLocked() *compiledEntry {
	var oldest *compiledEntry
	for range evictionChoices {
		t := s.mu.entries[rand.IntN(len(s.mu.entries))]
		if oldest == nil || t.used.Load() < oldest.used.Load() {
			oldest = t
		}
	}
	return oldest
}

// remove takes something off, which need not be there.
func (s *compiledCache) remove(t *compiledEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(t)
}

func (s *compiledCache) removeLocked(t *compiledEntry) {
	if t.position > 0 {
		s.mu.bytes -= t.size
		last := s.mu.entries[len(s.mu.entries)-1]
		s.mu.entries[t.position-1], last.position = last, t.position
		s.mu.entries = slices.Delete(s.mu.entries, len(s.mu.entries)-1, len(s.mu.entries))
	}
	t.size, t.position = 0, 0
}

// sweep drops what is idle.
func (s *compiledCache) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.clock.Now().Add(-s.idle).UnixNano()
	for _, t := range slices.Backward(s.mu.entries) { // what stands behind may move
		if t.used.Load() <= since && t.drop() {
			s.removeLocked(t)
		}
	}
}

// size is what some things take that may be on the shelf, in bytes.
func (s *compiledCache) size(things ...*compiledEntry) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bytes int64
	for _, t := range things {
		if t.position > 0 {
			bytes += t.size
		}
	}
	return bytes
}

// usage tells how much there is.
func (s *compiledCache) usage() (things int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.entries), s.mu.bytes
}
