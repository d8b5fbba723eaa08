package server

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestTrimmer: the longer nothing was collected, the less there must be to give back,
// and what was dropped counts.
func TestTrimmer(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	trims, dropped := 0, int64(0)
	x := newTrimmer(nil, func() int64 { return dropped }, func() { trims++ }, func() bool { return true })
	looks := func(n int) int {
		trims = 0
		debug.FreeOSMemory()
		for range n + 1 { // the first sees that there was a collection
			x.check()
		}
		return trims
	}
	if n := looks(5); n != 0 {
		t.Errorf("trimmed %d times with nothing to give back", n)
	}
	garbage := func(size int) int {
		trims = 0
		debug.FreeOSMemory()
		x.check()
		runtime.KeepAlive(make([]byte, size))
		x.check()
		return trims
	}
	if n := garbage(2 * trimGain); n != 1 {
		t.Errorf("trimmed %d times with much to give back", n)
	}
	if n := garbage(trimGain / 2); n != 0 {
		t.Errorf("trimmed %d times with some to give back", n)
	}
	for range 3 {
		x.check()
	}
	if trims != 1 {
		t.Errorf("trimmed %d times with some to give back for a while", trims)
	}
	dropped = trimGain
	if n := looks(1); n != 1 {
		t.Errorf("trimmed %d times when much was dropped", n)
	}
	dropped = minDroppedBurst
	if n := looks(2); n != 0 {
		t.Errorf("trimmed %d times while little was dropped each time", n)
	}
	dropped = 0
	if x.check(); trims != 1 {
		t.Errorf("trimmed %d times when no more was dropped", trims)
	}
	if x.check(); trims != 1 {
		t.Errorf("trimmed %d times for one burst", trims)
	}
}
