package cache

import (
	"sync"
	"time"
)

// forecast says whether progress is likely to reach the source's newest revision soon, judging
// by the last times. The zero value expects so.
type forecast struct {
	mu struct {
		sync.Mutex
		// far is the share of the last times in which progress did not come soon. It is a moving
		// average, in which the last time weighs half.
		far float64
		// probedAt is when isDue last returned true. pause is how long it then returns
		// false.
		probedAt time.Time
		pause    time.Duration
		// usual is how long progress took the last times that it came soon. It is a moving
		// average. Zero means that progress never came soon.
		usual time.Duration
	}
}

const (
	minProbePause = time.Second
	maxProbePause = 16 * time.Second
	// Reads wait for at most hopeFactor times as long as progress usually takes, or minHope
	// if that is longer.
	hopeFactor = 8
	minHope    = 10 * time.Millisecond
)

// isNear reports whether progress is expected soon, so that a read should wait.
func (f *forecast) isNear() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.far <= 0.5
}

// isDue reports whether it is time to probe whether progress comes soon again. It returns true
// once in each pause.
func (f *forecast) isDue(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := now.Sub(f.mu.probedAt) > f.mu.pause
	if due {
		f.mu.probedAt = now
	}
	return due
}

// patience returns how long a read should wait for progress, at most most. If progress takes
// much longer than usual, the source itself does not know of the revision yet.
func (f *forecast) patience(most time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.usual == 0 {
		return most
	}
	return min(most, max(minHope, hopeFactor*f.mu.usual))
}

// note records whether progress came soon, and after how long.
func (f *forecast) note(soon bool, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.far /= 2; soon {
		f.mu.pause = 0
		f.mu.usual += (max(took, time.Microsecond) - f.mu.usual) / 2
		return
	}
	f.mu.far += 0.5
	f.mu.pause = min(max(2*f.mu.pause, minProbePause), maxProbePause)
}
