package crd

import (
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// compiledCache bounds the memory of compiled schemas, validators and rules. The values
// themselves are in compiledSlots; the cache knows their estimated sizes and when they
// were used. It drops some values when they are too large together (evictionPool). It
// also drops values that were not used for the idle time.
//
// A value must not be dropped while a request uses it, which its slot says. So the cache
// may be over its limit while many requests are under way.
type compiledCache struct {
	// limit is in bytes.
	limit int64
	idle  time.Duration
	clock clock.PassiveClock

	// No other lock is taken under mu.
	mu struct {
		sync.Mutex
		pool evictionPool[*compiledEntry]
	}
}

// compiledEntry is a value of a compiledSlot, as the cache sees it.
type compiledEntry struct {
	poolEntry
	// drop drops the value, and returns false if it is in use. It takes no lock.
	drop func() bool
}

func newCompiledCache(limit int64, idle time.Duration, c clock.PassiveClock) *compiledCache {
	return &compiledCache{limit: limit, idle: idle, clock: c}
}

// touch records that an entry is used.
func (c *compiledCache) touch(e *compiledEntry) { e.use(c.clock.Now()) }

// put adds to the size of an entry, which need not be in the cache yet, and drops others
// to make up for it.
func (c *compiledCache) put(e *compiledEntry, size int64) {
	c.touch(e)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.pool.grow(e, size)
	c.evictLocked(e)
}

// maxBusyChoices is how many times evictLocked chooses an entry that is in use before it
// gives up.
const maxBusyChoices = 16

// evictLocked drops entries other than newest until the rest fits, or until it has chosen
// maxBusyChoices entries that are in use.
func (c *compiledCache) evictLocked(newest *compiledEntry) {
	for busy := 0; c.mu.pool.bytes > c.limit && busy < maxBusyChoices; {
		if e := c.mu.pool.candidate(); e != newest && e.drop() {
			c.mu.pool.remove(e)
		} else {
			busy++
		}
	}
}

// remove takes an entry out, which need not be in the cache. Its value stays.
func (c *compiledCache) remove(e *compiledEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.pool.remove(e)
}

// sweep drops entries that were not used for the idle time.
func (c *compiledCache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := c.clock.Now().Add(-c.idle)
	for _, e := range slices.Backward(c.mu.pool.entries) { // remove moves the last entry
		if !e.usedSince(since) && e.drop() {
			c.mu.pool.remove(e)
		}
	}
}

// size returns the sum of some entries' sizes in bytes. Entries that are not in the cache
// count nothing.
func (c *compiledCache) size(entries ...*compiledEntry) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var bytes int64
	for _, e := range entries {
		bytes += e.size
	}
	return bytes
}

// usage returns how many entries there are, and their bytes.
func (c *compiledCache) usage() (entries int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.pool.entries), c.mu.pool.bytes
}
