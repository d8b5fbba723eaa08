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
		{"much at the bound", maxDoublings, 0.7, 0.3, maxDoublings},
		{"some", 2, 0.15, 0.85, 2},
		{"little", 2, 0.01, 0.99, 1},
		{"little at the least", 0, 0.01, 0.99, 0},
		{"nothing was spent", 1, 0, 0, 0},
	} {
		if got := nextDoublings(c.now, c.collecting, c.living); got != c.want {
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
	bytes := make([]byte, 2*largeHeap)
	defer runtime.KeepAlive(bytes)
	for _, c := range []struct {
		name     string
		idle     bool
		pointers int
		widens   bool
	}{
		{"much to walk through", false, largeHeap / 32, true},
		{"little to walk through", false, 0, false},
		{"for nobody", true, largeHeap / 32, false},
	} {
		walked := make([]*byte, c.pointers)
		runtime.GC()
		p := newGCPacer(func() bool { return c.idle })
		p.maxHeadroom = 4 * minLargeHeapHeadroom
		first := percent()
		for range maxDoublings {
			p.adjust()
		}
		usual := percent()
		if wide := first > usual; wide != (c.pointers > 0) {
			t.Errorf("%s: the heap may grow by %d %% at first, usually by %d %%", c.name, first, usual)
		}
		p.last.collecting -= 1000 // seconds
		p.adjust()
		if wide := percent() > usual; wide != c.widens {
			t.Errorf("%s: the heap may grow by %d %% when the collector is busy, usually by %d %%", c.name, percent(), usual)
		}
		if p.adjust(); percent() != usual {
			t.Errorf("%s: at rest the heap may grow by %d %%, usually by %d %%", c.name, percent(), usual)
		}
		runtime.KeepAlive(walked)
	}
}

// TestRoomFor checks that a large heap may grow by what a collection walks through, and a
// small one by up to twice the usual while the collector is busy, within bounds.
func TestRoomFor(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name                 string
		live, walked, stacks uint64
		wider                int
		room                 uint64
	}{
		{"small", 200 * mb, 100 * mb, 50 * mb, 0, smallHeapHeadroom},
		{"small with a busy collector", 60 * mb, 40 * mb, 10 * mb, maxDoublings, 256 * mb},
		{"less small with a busy collector", 150 * mb, 100 * mb, 50 * mb, maxDoublings, maxSmallHeap - 150*mb},
		{"hardly small with a busy collector", 250 * mb, 100 * mb, 50 * mb, maxDoublings, smallHeapHeadroom},
		{"mostly bytes", 2000 * mb, 20 * mb, 10 * mb, 0, minLargeHeapHeadroom},
		{"pointers and stacks", 300 * mb, 100 * mb, 50 * mb, 0, 150 * mb},
		{"more than there is room for", 900 * mb, 800 * mb, 50 * mb, 0, 384 * mb},
		{"a busy collector", 300 * mb, 160 * mb, 50 * mb, maxDoublings, 240 * mb},
		{"a busy collector with little to walk through", 300 * mb, 20 * mb, 10 * mb, maxDoublings, minLargeHeapHeadroom},
	} {
		if got := headroomFor(c.live, c.walked, c.stacks, 384*mb, c.wider); got != c.room {
			t.Errorf("%s: %d MiB, want %d", c.name, got/mb, c.room/mb)
		}
	}
	if got := headroomFor(200*mb, 100*mb, 50*mb, 64*mb, maxDoublings); got != smallHeapHeadroom {
		t.Errorf("where there is little memory a small heap may grow by %d MiB, want %d", got/mb, smallHeapHeadroom/mb)
	}
}
