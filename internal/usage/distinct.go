package usage

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// crowd counts distinct hashes: exactly as long as they are few, then by
// HyperLogLog with a standard error of 3 %. It takes 1 KiB at most. The zero value
// is empty.
type crowd struct {
	few  []uint64
	many *[registers]uint8
}

const (
	registers    = 1 << registerBits
	registerBits = 10
	maxFew       = 64
)

func (c *crowd) add(hash uint64) {
	if c.many == nil {
		if slices.Contains(c.few, hash) {
			return
		}
		if len(c.few) < maxFew {
			c.few = append(c.few, hash)
			return
		}
		c.spill()
	}
	c.put(hash)
}

// spill goes over to registers.
func (c *crowd) spill() {
	c.many = &[registers]uint8{}
	for _, h := range c.few {
		c.put(h)
	}
	c.few = nil
}

func (c *crowd) put(hash uint64) {
	// The rank is of the bits that do not choose the register.
	rank := uint8(bits.LeadingZeros64(hash|1<<registerBits-1)) + 1
	if r := &c.many[hash%registers]; *r < rank {
		*r = rank
	}
}

// merge adds all of another crowd.
func (c *crowd) merge(d *crowd) {
	for _, h := range d.few {
		c.add(h)
	}
	if d.many == nil {
		return
	}
	if c.many == nil {
		c.spill()
	}
	for i, rank := range d.many {
		c.many[i] = max(c.many[i], rank)
	}
}

// count is about how many there are (Flajolet et al., with linear counting for
// small numbers).
func (c *crowd) count() int {
	if c.many == nil {
		return len(c.few)
	}
	sum, empty := 0.0, 0
	for _, rank := range c.many {
		sum += 1 / float64(uint64(1)<<rank)
		if rank == 0 {
			empty++
		}
	}
	estimate := 0.7213 / (1 + 1.079/registers) * registers * registers / sum
	if empty > 0 && estimate <= 2.5*registers {
		estimate = registers * math.Log(registers/float64(empty))
	}
	return int(estimate + 0.5)
}

// lately counts distinct hashes of the last while, in steps: a few crowds, the
// oldest of which is forgotten when a step is over.
type lately struct {
	step   time.Duration
	crowds []crowd
	// at numbers the step of the newest crowd.
	at int64
}

func newLately(step time.Duration, steps int) lately {
	return lately{step: step, crowds: make([]crowd, steps)}
}

// advance forgets what is too old.
func (r *lately) advance(now time.Time) {
	at := now.UnixNano() / int64(r.step)
	for i := max(r.at+1, at-int64(len(r.crowds))+1); i <= at; i++ {
		r.crowds[i%int64(len(r.crowds))] = crowd{}
	}
	r.at = max(r.at, at)
}

func (r *lately) add(now time.Time, hash uint64) {
	r.advance(now)
	r.crowds[r.at%int64(len(r.crowds))].add(hash)
}

// all is the crowd of the whole while.
func (r *lately) all(now time.Time) (all crowd) {
	r.advance(now)
	for i := range r.crowds {
		all.merge(&r.crowds[i])
	}
	return all
}

func (r *lately) count(now time.Time) int {
	all := r.all(now)
	return all.count()
}

// most is a bound of the count, as long as that is exact.
func (r *lately) most() (n int) {
	for i := range r.crowds {
		n += len(r.crowds[i].few)
	}
	return n
}

// large reports whether counting takes a walk through registers.
func (r *lately) large() bool {
	return slices.ContainsFunc(r.crowds, func(c crowd) bool { return c.many != nil })
}
