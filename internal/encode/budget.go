package encode

import (
	"sync"
	"sync/atomic"
)

// Budget bounds the bytes that all memos of a process keep. When it is full,
// what has not been read since it was last looked at goes first (CLOCK, a
// second chance in order of arrival).
//
// The zero value keeps nothing.
type Budget struct {
	limit int64
	used  atomic.Int64

	mu struct {
		sync.Mutex
		// queue holds cells in order of arrival. Cells that were emptied by their
		// owners stay until the hand reaches them or a sweep finds too many.
		queue []*cell
		empty int
	}
}

// NewBudget makes a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Used is the number of bytes kept now.
func (b *Budget) Used() int64 { return b.used.Load() }

// Limit is the number of bytes that may be kept.
func (b *Budget) Limit() int64 { return b.limit }

// cell holds one wire of one memo, or nothing.
type cell struct {
	held atomic.Pointer[wire]
	read atomic.Bool
}

// load returns what the cell holds, nil for nothing.
func (c *cell) load() *wire {
	w := c.held.Load()
	if w != nil && !c.read.Load() {
		c.read.Store(true)
	}
	return w
}

// keep puts w into an empty cell unless there is no room for it. The caller
// must be the only one that fills this cell.
func (b *Budget) keep(c *cell, w *wire) {
	if b == nil || w.cost() > b.limit {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.used.Load()+w.cost() > b.limit && b.evictLocked() {
	}
	if b.used.Load()+w.cost() > b.limit {
		return
	}
	b.used.Add(w.cost())
	c.held.Store(w)
	b.mu.queue = append(b.mu.queue, c)
}

// drop empties a cell whose owner needs it no more.
func (b *Budget) drop(c *cell) {
	w := c.held.Swap(nil)
	if w == nil {
		return
	}
	b.used.Add(-w.cost())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.empty++; b.mu.empty > len(b.mu.queue)/2 {
		b.sweepLocked()
	}
}

// evictLocked moves the hand by one cell. It returns false when there is none.
func (b *Budget) evictLocked() bool {
	if len(b.mu.queue) == 0 {
		return false
	}
	c := b.mu.queue[0]
	b.mu.queue = b.mu.queue[1:]
	switch {
	case c.held.Load() == nil:
		b.mu.empty = max(0, b.mu.empty-1)
	case c.read.Swap(false):
		b.mu.queue = append(b.mu.queue, c)
	default:
		if w := c.held.Swap(nil); w != nil {
			b.used.Add(-w.cost())
		}
	}
	return true
}

func (b *Budget) sweepLocked() {
	live := make([]*cell, 0, len(b.mu.queue)/2)
	for _, c := range b.mu.queue {
		if c.held.Load() != nil {
			live = append(live, c)
		}
	}
	b.mu.queue, b.mu.empty = live, 0
}
