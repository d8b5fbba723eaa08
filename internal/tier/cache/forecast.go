package cache

import (
	"sync"
	"time"
)

// forecast says whether progress is likely to pass the source's newest revision soon, judging
// by the last times. The zero value expects that it is.
type forecast struct {
	mu struct {
		sync.Mutex
		// far is the share of the last times in which progress did not come soon. It is a moving
		// average, in which the last time weighs half.
		far float64
		// probedAt is when a read last tried whether progress has become faster. pause is
		// how long no read tries again.
		probedAt time.Time
		pause    time.Duration
		// usual is how long progress took the last times that it came. It is a moving
		// average.
		usual time.Duration
	}
}

const (
	minProbePause = time.Second
	maxProbePause = 16 * time.Second
	// Reads wait for hopeFactor times as long as progress usually takes, and minHope at least.
	hopeFactor = 8
	minHope    = 10 * time.Millisecond
)

// isNear reports whether a read should wait.
func (f *forecast) isNear() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.far <= 0.5
}

// isDue reports whether it is time to look whether progress has become faster. It
// returns true once in each pause.
func (f *forecast) isDue(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := now.Sub(f.mu.probedAt) > f.mu.pause
	if due {
		f.mu.probedAt = now
	}
	return due
}

// patience returns how long a read should wait for progress that takes most at the most. If
// progress takes much longer than usual, the source itself does not know of the revision yet.
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
