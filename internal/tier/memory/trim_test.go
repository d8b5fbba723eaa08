package memory

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"testing"
)

// TestTrimmer checks that less needs to be given back the longer there was no
// collection, and that dropped bytes count.
func TestTrimmer(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	trims, dropped := 0, int64(0)
	trimmer := NewTrimmer(TrimmerConfig{
		Expire: func() int64 { return dropped }, Release: func() { trims++ }, Warming: func() bool { return true },
		Logger: slog.New(slog.DiscardHandler),
	})
	trimsAfter := func(n int) int {
		trims = 0
		debug.FreeOSMemory()
		for range n + 1 { // the first check notices the collection
			trimmer.check()
		}
		return trims
	}
	if n := trimsAfter(5); n != 0 {
		t.Errorf("trimmed %d times with nothing to give back", n)
	}
	trimsAfterGarbage := func(size int) int {
		trims = 0
		debug.FreeOSMemory()
		trimmer.check()
		runtime.KeepAlive(make([]byte, size))
		trimmer.check()
		return trims
	}
	if n := trimsAfterGarbage(2 * trimGain); n != 1 {
		t.Errorf("trimmed %d times with much to give back", n)
	}
	if n := trimsAfterGarbage(trimGain / 2); n != 0 {
		t.Errorf("trimmed %d times with some to give back", n)
	}
	for range 3 {
		trimmer.check()
	}
	if trims != 1 {
		t.Errorf("trimmed %d times with some to give back for several checks", trims)
	}
	dropped = trimGain
	if n := trimsAfter(1); n != 1 {
		t.Errorf("trimmed %d times when much was dropped", n)
	}
	dropped = minDroppedBurst
	if n := trimsAfter(2); n != 0 {
		t.Errorf("trimmed %d times while little was dropped each time", n)
	}
	dropped = 0
	if trimmer.check(); trims != 1 {
		t.Errorf("trimmed %d times when no more was dropped", trims)
	}
	if trimmer.check(); trims != 1 {
		t.Errorf("trimmed %d times for one burst", trims)
	}
}
