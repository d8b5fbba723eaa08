package encode

import (
	"sync"
	"sync/atomic"
)

// Budget bounds the bytes of the segments that all memos of a process keep. A memo owns
// its cells and fills them; the budget may empty any cell at any time. A segment in a cell
// is immutable, so a reader that has loaded it may use it for any time. The budget bounds
// what is kept, not what readers have.
//
// Eviction is CLOCK. Cells stand in a queue in order of arrival. A cell that was read since
// the hand last passed goes back to the end. That comes close to LRU, which would have to
// take a lock and move a list element with each read. CLOCK sets one flag.
//
// Plain and compressed segments have a queue each. A compressed segment may evict plain
// ones. It holds about eight times as many objects in the same memory, and from one of zstd
// the plain bytes are unpacked without decoding objects. A plain segment never evicts
// compressed ones. Without this rule a single walk over a large resource would replace what
// answers most readers by what answers the walk.
//
// There are two costs. One lock for all cells of the process is taken when a cell is filled
// or emptied, never when it is read. And cells that were emptied by their memos stay in the
// queue until the hand reaches them or a sweep removes them.
//
// A nil Budget and the zero value keep nothing.
type Budget struct {
	limit int64
	// used is the sum of the costs of all cells that are filled. It changes with mu held,
	// and is read without.
	used atomic.Int64
	// admission limits the large segments that readers have, which no cell keeps.
	admission segmentAdmission

	mu struct {
		sync.Mutex
		plain, compressed queue
		transient         transientQueue
	}
}

// NewBudget makes a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// UsedBytes returns the number of bytes that cells keep now.
func (b *Budget) UsedBytes() int64 { return b.used.Load() }

// LimitBytes returns the number of bytes that cells may keep.
func (b *Budget) LimitBytes() int64 { return b.limit }

// tight reports whether less than an eighth of the budget would be left with cost more
// bytes. A tight budget keeps segments compressed. A nil Budget is tight.
func (b *Budget) tight(cost int64) bool {
	return b == nil || b.used.Load()+cost > b.limit-b.limit/8
}

// cell holds one segment of one memo, or none. The memo that owns the cell fills it, one
// goroutine at a time and only while it is empty. The owner and the budget empty it.
type cell struct {
	segment atomic.Pointer[segment]
	// referenced is CLOCK's flag: the segment was read since the hand last passed.
	referenced atomic.Bool
}

// load returns the cell's segment. It returns nil if the cell is empty.
func (c *cell) load() *segment {
	seg := c.segment.Load()
	// The flag is seldom false, and a write would take the cache line from other readers.
	if seg != nil && !c.referenced.Load() {
		c.referenced.Store(true)
	}
	return seg
}

// keepPlain puts a plain segment into an empty cell, unless there is no room for it. No
// other goroutine may fill the cell meanwhile.
func (b *Budget) keepPlain(c *cell, seg *segment) { b.keep(c, seg, false) }

// keepCompressed is keepPlain for compressed segments.
func (b *Budget) keepCompressed(c *cell, seg *segment) { b.keep(c, seg, true) }

func (b *Budget) keep(c *cell, seg *segment, compressed bool) {
	if b == nil || seg.cost() > b.limit {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.used.Load()+seg.cost() > b.limit {
		if !b.evictLocked(&b.mu.plain) && !(compressed && b.evictLocked(&b.mu.compressed)) {
			return
		}
	}
	b.used.Add(seg.cost())
	c.segment.Store(seg)
	q := &b.mu.plain
	if compressed {
		q = &b.mu.compressed
	}
	q.cells = append(q.cells, c)
	b.checkLocked()
}

// drop empties a cell whose owner no longer needs it.
func (b *Budget) drop(c *cell) {
	if b == nil || c.segment.Load() == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	seg := c.segment.Swap(nil)
	if seg == nil {
		return
	}
	b.used.Add(-seg.cost())
	// A cell does not record which queue it stands in, so both count it. A sweep that
	// comes too early costs little.
	for _, q := range []*queue{&b.mu.plain, &b.mu.compressed} {
		if q.empty++; q.empty > len(q.cells)/2 {
			q.sweep()
		}
	}
	b.checkLocked()
}

// evictLocked moves a queue's hand by one cell: it empties the cell, or gives it a second
// chance. It returns false if the queue has no cells.
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
		b.used.Add(-c.segment.Swap(nil).cost())
	}
	return true
}

// queue is a CLOCK: the cells in order of arrival, the hand at the first. Cells that
// their owners emptied stay until the hand reaches them or a sweep removes them. A cell
// that was emptied and filled again may stand in the queue twice; then it is only looked
// at more often.
type queue struct {
	cells []*cell
	// empty estimates the number of empty cells. It only decides when to sweep.
	empty int
}

// sweep removes the empty cells.
func (q *queue) sweep() {
	live := make([]*cell, 0, len(q.cells)/2)
	for _, c := range q.cells {
		if c.segment.Load() != nil {
			live = append(live, c)
		}
	}
	q.cells, q.empty = live, 0
}
