package analyze

import (
	"maps"
	"math"
)

// startCounter counts the requests that instances send when they start, whatever the order of the
// events is.
//
// An instance starts with its first read of a whole collection. Which read is the first is known at
// the end only. So the counter has, for each pair of an instance and a cell, the counts of the time
// from the pair's first request on.
//
// Beyond maxPairs pairs it keeps a sample: the instances with the smaller hashes. The choice of
// instances does not depend on the order either.
type startCounter struct {
	pairs map[startPair]*startCounts
	// maxHash is the largest hash of an instance that is kept.
	maxHash uint64
}

const (
	maxPairs = 200_000
	// startSlotMicros is the length of a slot of time. A start takes startSlots slots: 2 to 2.5
	// minutes, because it starts within the first slot.
	startSlotMicros = 30 * 1e6
	startSlots      = 5
)

// startPair is an instance, by its hash, and a cell, by its number.
type startPair struct {
	instance uint64
	cell     uint32
}

// startCounts has the requests of a pair by slot, from the slot first on.
type startCounts struct {
	first  int64
	counts [startSlots]uint16
}

func newStartCounter() *startCounter {
	return &startCounter{pairs: map[startPair]*startCounts{}, maxHash: math.MaxUint64}
}

// add counts a request at a time, in microseconds since 1970.
func (c *startCounter) add(instance uint64, cell uint32, now int64) {
	if instance > c.maxHash {
		return
	}
	slot, pair := now/startSlotMicros, startPair{instance, cell}
	counts := c.pairs[pair]
	if counts == nil {
		counts = &startCounts{first: slot}
		c.pairs[pair] = counts
	}
	counts.add(slot)
	for len(c.pairs) > maxPairs {
		c.maxHash /= 2
		maps.DeleteFunc(c.pairs, func(p startPair, _ *startCounts) bool { return p.instance > c.maxHash })
	}
}

// add counts a request in a slot. If the slot is the earliest, the counts then start with it.
func (c *startCounts) add(slot int64) {
	if earlier := c.first - slot; earlier > 0 {
		var moved [startSlots]uint16
		if earlier < startSlots {
			copy(moved[earlier:], c.counts[:])
		}
		c.first, c.counts = slot, moved
	}
	if i := slot - c.first; i < startSlots && c.counts[i] < math.MaxUint16 {
		c.counts[i]++
	}
}

// inStart returns the number of requests within a start whose first slot is given. If the instance
// has sent such requests before the start, too, they are periodic: as many count as in the slots
// after the first such request.
func (c *startCounts) inStart(slot int64) (n uint64) {
	late := max(0, c.first-slot)
	for _, count := range c.counts[:max(0, startSlots-late)] {
		n += uint64(count)
	}
	return n
}

// finishStarts sets the starts of clients and the requests of cells at starts. The caller must call
// it once, after the last event.
func (c *collector) finishStarts() {
	type row struct {
		key  cellKey
		cell *cell
	}
	byNumber := make(map[uint32]row, len(c.cells.rows))
	for key, v := range c.cells.rows {
		byNumber[v.number] = row{key, v}
	}
	starts := map[uint64]int64{} // slots, by the hash of the instance
	for pair, counts := range c.starts.pairs {
		r := byNumber[pair.cell]
		if r.cell == nil || !r.key.isInitial() {
			continue
		}
		slot, known := starts[pair.instance]
		if counts := c.clients.rows[r.key.client]; !known && counts != nil {
			counts.starts++
		}
		if !known || counts.first < slot {
			starts[pair.instance] = counts.first
		}
	}
	for pair, counts := range c.starts.pairs {
		slot, known := starts[pair.instance]
		if r := byNumber[pair.cell]; known && r.cell != nil {
			r.cell.atStart += counts.inStart(slot)
		}
	}
}
