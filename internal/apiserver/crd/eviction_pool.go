package crd

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// evictionPool holds the entries of a cache that is bounded in bytes, and chooses which of
// them to drop. Of two random entries it drops the one that was used longer ago (the power
// of two choices). Entries that are used often stay. If more entries than fit are used in
// turn, most of them are still there when their turn comes. An LRU list would have dropped
// each of them. A use costs one store, and no lock.
//
// The lock of the cache guards the pool, and the fields of its entries except used. The zero
// value is ready.
type evictionPool[E pooledEntry] struct {
	entries []E
	// bytes is the sum of the entries' sizes.
	bytes int64
}

// pooledEntry is an entry that embeds a poolEntry.
type pooledEntry interface {
	comparable
	pooled() *poolEntry
}

// poolEntry is the pool's part of an entry.
type poolEntry struct {
	// size is in bytes.
	size int64
	// position is one more than the index in evictionPool.entries. It is 0 for an entry
	// that is in no pool.
	position int
	// used is the time of the last use in nanoseconds. It is set without the lock.
	used atomic.Int64
}

func (e *poolEntry) pooled() *poolEntry { return e }

func (e *poolEntry) use(now time.Time) { e.used.Store(now.UnixNano()) }

// usedSince reports whether an entry was used after t.
func (e *poolEntry) usedSince(t time.Time) bool { return e.used.Load() > t.UnixNano() }

// grow adds to the size of an entry, and puts it into the pool if it is not there.
func (p *evictionPool[E]) grow(e E, size int64) {
	entry := e.pooled()
	entry.size += size
	p.bytes += size
	if entry.position == 0 {
		p.entries = append(p.entries, e)
		entry.position = len(p.entries)
	}
}

// remove takes an entry out. It does nothing for an entry that is in no pool.
func (p *evictionPool[E]) remove(e E) {
	entry := e.pooled()
	if entry.position > 0 {
		p.bytes -= entry.size
		end := len(p.entries) - 1
		last := p.entries[end]
		p.entries[entry.position-1], last.pooled().position = last, entry.position
		var none E
		p.entries[end], p.entries = none, p.entries[:end]
	}
	entry.size, entry.position = 0, 0
}

// evictionChoices is the number of entries of which the oldest is dropped.
const evictionChoices = 2

// candidate returns the entry to drop next. The pool must not be empty.
func (p *evictionPool[E]) candidate() E {
	oldest := p.entries[rand.IntN(len(p.entries))]
	for range evictionChoices - 1 {
		if e := p.entries[rand.IntN(len(p.entries))]; e.pooled().used.Load() < oldest.pooled().used.Load() {
			oldest = e
		}
	}
	return oldest
}
