package memory

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestNextDoublings checks that the headroom is doubled while the collector takes
// much of the CPU, up to a bound, and halved when it takes little.
func TestNextDoublings(t *testing.T) {
	for _, c := range []struct {
		name      string
		doublings int
		spent     cpuSeconds
		want      int
	}{
		{"much", 0, cpuSeconds{0.7, 0.3}, 1},
		{"much at the bound", maxDoublings, cpuSeconds{0.7, 0.3}, maxDoublings},
		{"some", 2, cpuSeconds{0.15, 0.85}, 2},
		{"little", 2, cpuSeconds{0.01, 0.99}, 1},
		{"little without doublings", 0, cpuSeconds{0.01, 0.99}, 0},
		{"no CPU time", 1, cpuSeconds{}, 0},
	} {
		if got := nextDoublings(c.doublings, c.spent); got != c.want {
			t.Errorf("%s: %d doublings, want %d", c.name, got, c.want)
		}
	}
}

// gcPercent returns the percentage that the collector is set to.
func gcPercent() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}

// TestGCTuner checks when a large heap has more than the usual headroom: at first, and
// while the collector is busy. It has not if little of the heap is scanned, or if the
// server only encodes ahead of requests.
func TestGCTuner(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(gcPercent())
	bytes := make([]byte, 2*largeHeap)
	defer runtime.KeepAlive(bytes)
	for _, c := range []struct {
		name     string
		warming  bool
		pointers int
		raised   bool
	}{
		{"much to scan", false, largeHeap / 32, true},
		{"little to scan", false, 0, false},
		{"warming", true, largeHeap / 32, false},
	} {
		scannable := make([]*byte, c.pointers)
		runtime.GC()
		tuner := newGCTuner(4*minLargeHeapHeadroom, func() bool { return c.warming })
		first := gcPercent()
		for range maxDoublings {
			tuner.adjust()
		}
		usual := gcPercent()
		if raised := first > usual; raised != (c.pointers > 0) {
			t.Errorf("%s: the heap may grow by %d %% at first, usually by %d %%", c.name, first, usual)
		}
		tuner.last.collector -= 1000 // as if it had taken so many seconds since
		tuner.adjust()
		if raised := gcPercent() > usual; raised != c.raised {
			t.Errorf("%s: the heap may grow by %d %% when the collector is busy, usually by %d %%", c.name, gcPercent(), usual)
		}
		if tuner.adjust(); gcPercent() != usual {
			t.Errorf("%s: the heap may grow by %d %% when the collector is idle again, usually by %d %%", c.name, gcPercent(), usual)
		}
		runtime.KeepAlive(scannable)
	}
}

// TestHeadroom checks that a large heap may grow by the size of its scannable memory and
// stacks. While the collector is busy, a small one may grow by up to twice the usual.
// All that is bounded.
func TestHeadroom(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name      string
		heap      heapSize
		doublings int
		want      uint64
	}{
		{"small", heapSize{200 * mib, 100 * mib, 50 * mib}, 0, smallHeapHeadroom},
		{"small with a busy collector", heapSize{60 * mib, 40 * mib, 10 * mib}, maxDoublings, 256 * mib},
		{"less small with a busy collector", heapSize{150 * mib, 100 * mib, 50 * mib}, maxDoublings, maxSmallHeap - 150*mib},
		{"just small with a busy collector", heapSize{250 * mib, 100 * mib, 50 * mib}, maxDoublings, smallHeapHeadroom},
		{"mostly bytes", heapSize{2000 * mib, 20 * mib, 10 * mib}, 0, minLargeHeapHeadroom},
		{"pointers and stacks", heapSize{300 * mib, 100 * mib, 50 * mib}, 0, 150 * mib},
		{"more to scan than the bound", heapSize{900 * mib, 800 * mib, 50 * mib}, 0, 384 * mib},
		{"a busy collector", heapSize{300 * mib, 160 * mib, 50 * mib}, maxDoublings, 240 * mib},
		{"a busy collector with little to scan", heapSize{300 * mib, 20 * mib, 10 * mib}, maxDoublings, minLargeHeapHeadroom},
	} {
		if got := c.heap.headroom(384*mib, c.doublings); got != c.want {
			t.Errorf("%s: %d MiB, want %d", c.name, got/mib, c.want/mib)
		}
	}
	small := heapSize{200 * mib, 100 * mib, 50 * mib}
	if got := small.headroom(64*mib, maxDoublings); got != smallHeapHeadroom {
		t.Errorf("where there is little memory a small heap may grow by %d MiB, want %d", got/mib, smallHeapHeadroom/mib)
	}
}
