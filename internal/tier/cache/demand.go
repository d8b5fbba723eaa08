package cache

import (
	"math"
	"sync"
	"time"
)

// demand is how much was read in the last second or so: older reads count less and less.
type demand struct {
	mu struct {
		sync.Mutex
		// at is the time that reads and weight are of.
		at time.Time
		// reads is the number of reads. weight is what they would cost a source, in objects.
		reads, weight float64
	}
}

const (
	// requestWeight is what a request costs a source besides its objects, in objects.
	requestWeight = 10
	// A window is gatherFor long for each read of the last second, and at most maxGather. So
	// a thousand reads a second cost twenty questions.
	gatherFor = 50 * time.Microsecond
	maxGather = 50 * time.Millisecond
)

// add records a read that examines objects. It returns the weight of the reads of the last
// second, and the weight that gathers in a window.
func (d *demand) add(now time.Time, examined int) (weight, gathered float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ageLocked(now)
	d.mu.reads++
	d.mu.weight += float64(requestWeight + examined)
	return d.mu.weight, d.mu.weight * d.windowLocked().Seconds()
}

// window returns for how long reads gather before the source is asked.
func (d *demand) window(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ageLocked(now)
	return d.windowLocked()
}

func (d *demand) windowLocked() time.Duration {
	return min(maxGather, time.Duration(d.mu.reads*float64(gatherFor)))
}

// ageLocked reduces reads and weight by the time since the last call.
func (d *demand) ageLocked(now time.Time) {
	factor := math.Exp(-now.Sub(d.mu.at).Seconds())
	d.mu.at, d.mu.reads, d.mu.weight = now, d.mu.reads*factor, d.mu.weight*factor
}
