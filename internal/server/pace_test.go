package server

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestWiden checks that a collector that takes much of the CPU is given more room, up
// to a bound, and loses it again.
func TestWiden(t *testing.T) {
	for _, c := range []struct {
		name               string
		now                int
		collecting, living float64
		want               int
	}{
		{"much", 0, 0.7, 0.3, 1},
		{"much at the bound", gcWidest, 0.7, 0.3, gcWidest},
		{"some", 2, 0.15, 0.85, 2},
		{"little", 2, 0.01, 0.99, 1},
		{"little at the least", 0, 0.01, 0.99, 0},
		{"nothing was spent", 1, 0, 0, 0},
	} {
		if got := widen(c.now, c.collecting, c.living); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// percent is what the collector is set to.
func percent() int {
	now := debug.SetGCPercent(100)
	debug.SetGCPercent(now)
	return now
}

// TestPacer checks that the collector is given room at first and when it is busy, little
// if it has little to walk through, none for work that nobody waits for, and the usual at
// rest.
func TestPacer(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(percent())
	bytes := make([]byte, 2*gcLarge)
	defer runtime.KeepAlive(bytes)
	for _, c := range []struct {
		name     string
		idle     bool
		pointers int
		widens   bool
	}{
		{"much to walk through", false, gcLarge / 8, true},
		{"little to walk through", false, 0, false},
		{"for nobody", true, gcLarge / 8, false},
	} {
		walked := make([]*byte, c.pointers)
		runtime.GC()
		p := newPacer(func() bool { return c.idle })
		p.most = 4 * gcLargeHeadroom
		first := percent()
		for range gcWidest {
			p.look()
		}
		usual := percent()
		if wide := first > usual; wide != (c.pointers > 0) {
			t.Errorf("%s: the heap may grow by %d %% at first, usually by %d %%", c.name, first, usual)
		}
		p.last.collecting -= 1000 // seconds
		p.look()
		if wide := percent() > usual; wide != c.widens {
			t.Errorf("%s: the heap may grow by %d %% when the collector is busy, usually by %d %%", c.name, percent(), usual)
		}
		if p.look(); percent() != usual {
			t.Errorf("%s: at rest the heap may grow by %d %%, usually by %d %%", c.name, percent(), usual)
		}
		runtime.KeepAlive(walked)
	}
}
