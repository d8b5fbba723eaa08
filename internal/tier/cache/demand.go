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
		at time.Time
		// reads is the number of reads, and weight is what they cost a source.
		reads, weight float64
	}
}

const (
	// requestWeight is what a request costs a source besides its objects, in objects.
	requestWeight = 10
	// gatherFor is how long reads gather for each read of the last second, and maxGather the
	// most: a thousand reads a second cost twenty questions.
	gatherFor = 50 * time.Microsecond
	maxGather = 50 * time.Millisecond
)

// add records a read, and returns how much weight gathers in a window.
func (d *demand) add(now time.Time, weight int) (gathered float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ageLocked(now)
	d.mu.reads++
	d.mu.weight += float64(weight)
	return d.mu.weight * d.windowLocked().Seconds()
}

// window returns for how long reads gather.
func (d *demand) window(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ageLocked(now)
	return d.windowLocked()
}

func (d *demand) windowLocked() time.Duration {
	return min(maxGather, time.Duration(d.mu.reads*float64(gatherFor)))
}

func (d *demand) ageLocked(now time.Time) {
	left := math.Exp(-now.Sub(d.mu.at).Seconds())
	d.mu.at, d.mu.reads, d.mu.weight = now, d.mu.reads*left, d.mu.weight*left
}
