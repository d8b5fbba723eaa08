package usage

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// distinctCounter counts distinct hashes. Up to maxExact it is exact. Beyond that it is
// a HyperLogLog (Flajolet et al., AofA 2007) with a standard error of 3 %. It takes
// 1 KiB at most. The zero value is empty.
type distinctCounter struct {
	exact []uint64
	// registers is nil while the count is exact. After that exact is nil.
	registers *[registerCount]uint8
}

const (
	registerCount = 1 << registerBits
	registerBits  = 10
	maxExact      = 64
)

func (c *distinctCounter) add(hash uint64) {
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
func (c *distinctCounter) useRegisters() {
	c.registers = &[registerCount]uint8{}
	for _, h := range c.exact {
		c.addToRegister(h)
	}
	c.exact = nil
}

// addToRegister chooses the register by the low bits of a hash, and computes the rank
// from the others.
func (c *distinctCounter) addToRegister(hash uint64) {
	rank := uint8(bits.LeadingZeros64(hash|1<<registerBits-1)) + 1
	if r := &c.registers[hash%registerCount]; *r < rank {
		*r = rank
	}
}

// merge adds the hashes of another counter.
func (c *distinctCounter) merge(other *distinctCounter) {
	for _, h := range other.exact {
		c.add(h)
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

// count returns the number of distinct hashes, or an estimate of it. Small estimates
// are by linear counting, as in the paper.
func (c *distinctCounter) count() int {
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

// slidingDistinct counts the distinct hashes of a sliding window. The window has a
// fixed number of steps with a distinctCounter each. When a step is over, the counter
// of the oldest step is emptied. So the window covers between steps-1 and steps steps.
type slidingDistinct struct {
	step time.Duration
	// counters is a ring: step n is at n % len(counters).
	counters []distinctCounter
	// newest is the number of the newest step.
	newest int64
}

func newSlidingDistinct(step time.Duration, steps int) slidingDistinct {
	return slidingDistinct{step: step, counters: make([]distinctCounter, steps)}
}

// advance empties the counters of steps that have left the window.
func (d *slidingDistinct) advance(now time.Time) {
	step := now.UnixNano() / int64(d.step)
	for i := max(d.newest+1, step-int64(len(d.counters))+1); i <= step; i++ {
		d.counters[i%int64(len(d.counters))] = distinctCounter{}
	}
	d.newest = max(d.newest, step)
}

func (d *slidingDistinct) add(now time.Time, hash uint64) {
	d.advance(now)
	d.counters[d.newest%int64(len(d.counters))].add(hash)
}

// union returns a counter of the whole window.
func (d *slidingDistinct) union(now time.Time) (all distinctCounter) {
	d.advance(now)
	for i := range d.counters {
		all.merge(&d.counters[i])
	}
	return all
}

func (d *slidingDistinct) count(now time.Time) int {
	all := d.union(now)
	return all.count()
}

// exactBound is an upper bound of count while no counter uses registers.
func (d *slidingDistinct) exactBound() (n int) {
	for i := range d.counters {
		n += len(d.counters[i].exact)
	}
	return n
}

// costly reports whether count has to read registers.
func (d *slidingDistinct) costly() bool {
	return slices.ContainsFunc(d.counters, func(c distinctCounter) bool { return c.registers != nil })
}
