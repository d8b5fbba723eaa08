package encode

import (
	"sync"
	"sync/atomic"
)

// Budget bounds the bytes that all memos of a process keep. When it is full,
// what has not been read since it was last looked at goes first (CLOCK, a
// second chance in order of arrival). Plain bytes make room for compressed
// ones, which hold eight times as much, and never the other way round.
//
// The zero value keeps nothing.
type Budget struct {
	limit int64
	used  atomic.Int64
	// admission are the large segments that nobody keeps, and readers have.
	admission segmentAdmission

	mu struct {
		sync.Mutex
		plain, packed queue
		// lately are large segments, the oldest first, and their bytes.
		lately      []*segment
		latelyBytes int64
	}
}

const (
	// transientShare of the budget, and at most latelyMost bytes, are held on top of
	// it for readers that go through large objects one behind the other: enough
	// for some tens of the largest (docs/bench/watch.md).
	transientShare    = 4
	maxTransientBytes = 24 << 20
)

// retainTransient keeps a large segment for a while. Its slot knows it as recent.
func (b *Budget) retainTransient(w *segment) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.lately = append(b.mu.lately, w)
	b.mu.latelyBytes += w.cost()
	for b.mu.latelyBytes > min(b.limit/transientShare, maxTransientBytes) {
		b.mu.latelyBytes -= b.mu.lately[0].cost()
		b.mu.lately[0] = nil
		b.mu.lately = b.mu.lately[1:]
	}
}

// ReleaseTransient lets go of what is held for readers that are on their way, when there
// are none.
func (b *Budget) ReleaseTransient() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.lately, b.mu.latelyBytes = nil, 0
}

// queue holds cells in order of arrival. Cells that were emptied by their owners
// stay until the hand reaches them or a sweep finds too many.
type queue struct {
	cells []*cell
	empty int
}

// NewBudget makes a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Used is the number of bytes kept now.
func (b *Budget) Used() int64 { return b.used.Load() }

// Limit is the number of bytes that may be kept.
func (b *Budget) Limit() int64 { return b.limit }

// tight reports whether little room would be left behind so many bytes more: it
// is time to keep things compressed.
func (b *Budget) tight(cost int64) bool {
	return b == nil || b.used.Load()+cost > b.limit-b.limit/8
}

// cell holds one wire of one memo, or nothing.
type cell struct {
	segment    atomic.Pointer[segment]
	referenced atomic.Bool
}

// load returns what the cell holds, nil for nothing.
func (c *cell) load() *segment {
	w := c.segment.Load()
	if w != nil && !c.referenced.Load() {
		c.referenced.Store(true)
	}
	return w
}

// keepPlain puts w into an empty cell unless there is no room for it. The caller
// must be the only one that fills this cell.
func (b *Budget) keepPlain(c *cell, w *segment) { b.keep(c, w, false) }

// keepPacked is keepPlain for compressed bytes.
func (b *Budget) keepPacked(c *cell, w *segment) { b.keep(c, w, true) }

func (b *Budget) keep(c *cell, w *segment, packed bool) {
	if b == nil || w.cost() > b.limit {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.used.Load()+w.cost() > b.limit {
		if !b.evictLocked(&b.mu.plain) && !(packed && b.evictLocked(&b.mu.packed)) {
			return
		}
	}
	b.used.Add(w.cost())
	c.segment.Store(w)
	q := &b.mu.plain
	if packed {
		q = &b.mu.packed
	}
	q.cells = append(q.cells, c)
}

// drop empties a cell whose owner needs it no more.
func (b *Budget) drop(c *cell) {
	w := c.segment.Swap(nil)
	if w == nil || b == nil {
		return
	}
	b.used.Add(-w.cost())
	b.mu.Lock()
	defer b.mu.Unlock()
	// Which queue the cell is in is not known: a sweep that comes early is cheap.
	for _, q := range []*queue{&b.mu.plain, &b.mu.packed} {
		if q.empty++; q.empty > len(q.cells)/2 {
			q.sweep()
		}
	}
}

// evictLocked moves a queue's hand by one cell. It returns false when there is
// none.
func (b *Budget) evictLocked(q *queue) bool {
	if len(q.cells) == 0 {
		return false
	}
	c := q.cells[0]
	q.cells = q.cells[1:]
	switch {
	case c.segment.Load() == nil:
		q.empty = max(0, q.empty-1)
	case c.referenced.Swap(false):
		q.cells = append(q.cells, c)
	default:
		if w := c.segment.Swap(nil); w != nil {
			b.used.Add(-w.cost())
		}
	}
	return true
}

func (q *queue) sweep() {
	live := make([]*cell, 0, len(q.cells)/2)
	for _, c := range q.cells {
		if c.segment.Load() != nil {
			live = append(live, c)
		}
	}
	q.cells, q.empty = live, 0
}
