package distinct

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// Counter counts distinct hashes. Up to maxExact it is exact. Beyond that it is a HyperLogLog
// (Flajolet et al., AofA 2007) with a standard error of 3 %. It takes about 1 KiB at most. The
// zero value is empty. It is not safe for concurrent use.
type Counter struct {
	exact []uint64
	// registers is nil while the count is exact. After that exact is nil.
	registers *[registerCount]uint8
}

const (
	registerCount = 1 << registerBits
	registerBits  = 10
	maxExact      = 64
)

// Add counts a hash.
func (c *Counter) Add(hash uint64) {
	if c.registers == nil {
		if slices.Contains(c.exact, hash) {
			return
		}
		if len(c.exact) < maxExact {
			c.exact = append(c.exact, hash)
			return
		}
		c.useRegisters()
	}
	c.addToRegister(hash)
}

// useRegisters changes from exact hashes to registers.
func (c *Counter) useRegisters() {
	c.registers = &[registerCount]uint8{}
	for _, h := range c.exact {
		c.addToRegister(h)
	}
	c.exact = nil
}

// addToRegister chooses the register by the low bits of a hash, and computes the rank
// from the high bits.
func (c *Counter) addToRegister(hash uint64) {
	rank := uint8(bits.LeadingZeros64(hash|1<<registerBits-1)) + 1
	if r := &c.registers[hash%registerCount]; *r < rank {
		*r = rank
	}
}

// Merge adds the hashes of another counter.
func (c *Counter) Merge(other *Counter) {
	for _, h := range other.exact {
		c.Add(h)
	}
	if other.registers == nil {
		return
	}
	if c.registers == nil {
		c.useRegisters()
	}
	for i, rank := range other.registers {
		c.registers[i] = max(c.registers[i], rank)
	}
}

// Count returns the number of distinct hashes, or an estimate of it. Small estimates
// are by linear counting, as in the paper.
func (c *Counter) Count() int {
	if c.registers == nil {
		return len(c.exact)
	}
	sum, empty := 0.0, 0
	for _, rank := range c.registers {
		sum += 1 / float64(uint64(1)<<rank)
		if rank == 0 {
			empty++
		}
	}
	estimate := 0.7213 / (1 + 1.079/registerCount) * registerCount * registerCount / sum
	if empty > 0 && estimate <= 2.5*registerCount {
		estimate = registerCount * math.Log(registerCount/float64(empty))
	}
	return int(estimate + 0.5)
}

// SlidingCounter counts the distinct hashes of a sliding window. The window has a fixed number
// of steps with a Counter each. When a step is over, the counter of the oldest step is
// emptied. So the window covers between steps-1 and steps steps. It is not safe for concurrent
// use.
type SlidingCounter struct {
	step time.Duration
	// counters is a ring: step n is at n % len(counters).
	counters []Counter
	// newest is the number of the newest step.
	newest int64
}

// NewSlidingCounter returns a window of some steps.
func NewSlidingCounter(step time.Duration, steps int) SlidingCounter {
	return SlidingCounter{step: step, counters: make([]Counter, steps)}
}

// advance empties the counters of steps that have left the window.
func (d *SlidingCounter) advance(now time.Time) {
	step := now.UnixNano() / int64(d.step)
	for i := max(d.newest+1, step-int64(len(d.counters))+1); i <= step; i++ {
		d.counters[i%int64(len(d.counters))] = Counter{}
	}
	d.newest = max(d.newest, step)
}

// Add counts a hash now.
func (d *SlidingCounter) Add(now time.Time, hash uint64) {
	d.advance(now)
	d.counters[d.newest%int64(len(d.counters))].Add(hash)
}

// Union returns a counter of the whole window.
func (d *SlidingCounter) Union(now time.Time) (all Counter) {
	d.advance(now)
	for i := range d.counters {
		all.Merge(&d.counters[i])
	}
	return all
}

// Count estimates the distinct values in the window.
func (d *SlidingCounter) Count(now time.Time) int {
	all := d.Union(now)
	return all.Count()
}

// ExactBound returns an upper bound of Count while no counter uses registers.
func (d *SlidingCounter) ExactBound() (n int) {
	for i := range d.counters {
		n += len(d.counters[i].exact)
	}
	return n
}

// Costly reports whether Count has to read registers.
func (d *SlidingCounter) Costly() bool {
	return slices.ContainsFunc(d.counters, func(c Counter) bool { return c.registers != nil })
}
