package encode

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestFlightsAreBounded has many readers go through large segments, each from a place
// of its own and at a pace of its own.
func TestFlightsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, all = 1 << 20, 200
		var x flights
		cells := make([]cell, all)
		var readers sync.WaitGroup
		users := make([]atomic.Int32, all)
		var now, most atomic.Int64
		for reader := range 300 {
			readers.Go(func() {
				for i := range all {
					at := (i + reader) % all
					f := x.begin(&cells[at], size)
					if users[at].Add(1) == 1 {
						most.Store(max(most.Load(), now.Add(size)))
					}
					<-time.After(time.Duration(1+reader%7) * time.Millisecond)
					if users[at].Add(-1) == 0 {
						now.Add(-size)
					}
					x.end(f)
				}
			})
		}
		readers.Wait()
		if got := most.Load(); got > flightMost || got < flightMost/2 {
			t.Errorf("%d bytes at once, %d allowed", got, flightMost)
		}
		if len(x.of) > 0 || len(x.waiting) > 0 || x.bytes != 0 {
			t.Errorf("left %d segments, %d waiting, %d bytes", len(x.of), len(x.waiting), x.bytes)
		}
	})
}

// TestFlightsOfStalledReaders has more readers stall than there is room for.
func TestFlightsOfStalledReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, all = 1 << 20, 100
		var x flights
		cells := make([]cell, 2*all)
		var stalled []*flown
		began := time.Now()
		for i := range all {
			stalled = append(stalled, x.begin(&cells[i], size))
		}
		if took, rounds := time.Since(began), (all*size+flightMost-1)/flightMost; took > time.Duration(rounds)*flightFresh {
			t.Errorf("%d readers that stall took %s to begin", all, took)
		}
		<-time.After(flightFresh)
		began = time.Now()
		for i := range all {
			x.end(x.begin(&cells[all+i], size)) // of their own
			x.end(x.begin(&cells[i], size))     // shared with who stalls
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("%d readers beside %d that stall took %s", 2*all, all, took)
		}
		for _, f := range stalled {
			x.end(f)
		}
		if len(x.of) > 0 || x.bytes != 0 {
			t.Errorf("left %d segments, %d bytes", len(x.of), x.bytes)
		}
	})
}

// TestLargeFlightIsAlone begins with one that is larger than what is allowed.
func TestLargeFlightIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x flights
		var cells [2]cell
		began := time.Now()
		large := x.begin(&cells[0], 2*flightMost)
		var second sync.WaitGroup
		second.Go(func() { x.end(x.begin(&cells[1], 1)) })
		synctest.Wait()
		x.end(large)
		second.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s", took)
		}
	})
}
