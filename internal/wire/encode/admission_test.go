package encode

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAdmittedSegmentsAreBounded has many readers walk large segments, each from another
// segment and at another speed.
func TestAdmittedSegmentsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, all = 1 << 20, 200
		var a segmentAdmission
		cells := make([]cell, all)
		var readers sync.WaitGroup
		// mu guards how many readers have each segment, and the bytes that are out.
		var mu sync.Mutex
		users := make([]int, all)
		now, most := 0, 0
		use := func(at, readers int) {
			mu.Lock()
			defer mu.Unlock()
			before := users[at]
			if users[at] += readers; before == 0 || users[at] == 0 {
				now += readers * size
			}
			most = max(most, now)
		}
		for reader := range 300 {
			readers.Go(func() {
				for i := range all {
					at := (i + reader) % all
					f := a.acquire(&cells[at], size)
					use(at, 1)
					<-time.After(time.Duration(1+reader%7) * time.Millisecond)
					use(at, -1)
					a.release(f)
				}
			})
		}
		readers.Wait()
		if most > maxAdmittedBytes || most < maxAdmittedBytes/2 {
			t.Errorf("%d bytes at once, %d allowed", most, maxAdmittedBytes)
		}
		if len(a.mu.segments) > 0 || len(a.mu.waiting) > 0 || a.mu.bytes != 0 {
			t.Errorf("left %d segments, %d waiting, %d bytes", len(a.mu.segments), len(a.mu.waiting), a.mu.bytes)
		}
	})
}

// TestAdmissionOfStalledReaders has more readers stall than the bound lets in at once.
// Each of them is admitted, and readers beside them are not delayed.
func TestAdmissionOfStalledReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, all = 1 << 20, 100
		var a segmentAdmission
		cells := make([]cell, 2*all)
		var stalled []*admissionTicket
		began := time.Now()
		for i := range all {
			stalled = append(stalled, a.acquire(&cells[i], size))
		}
		if took, rounds := time.Since(began), (all*size+maxAdmittedBytes-1)/maxAdmittedBytes; took > time.Duration(rounds)*admissionFresh {
			t.Errorf("%d readers that stall took %s to begin", all, took)
		}
		<-time.After(admissionFresh)
		began = time.Now()
		for i := range all {
			a.release(a.acquire(&cells[all+i], size)) // another segment
			a.release(a.acquire(&cells[i], size))     // a stalled reader's segment
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("%d readers beside %d that stall took %s", 2*all, all, took)
		}
		for _, f := range stalled {
			a.release(f)
		}
		if len(a.mu.segments) > 0 || a.mu.bytes != 0 {
			t.Errorf("left %d segments, %d bytes", len(a.mu.segments), a.mu.bytes)
		}
	})
}

// TestOversizedSegmentIsAdmittedAlone acquires a segment that is larger than the bound.
func TestOversizedSegmentIsAdmittedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a segmentAdmission
		var cells [2]cell
		began := time.Now()
		large := a.acquire(&cells[0], 2*maxAdmittedBytes)
		var second sync.WaitGroup
		second.Go(func() { a.release(a.acquire(&cells[1], 1)) })
		synctest.Wait()
		a.release(large)
		second.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s", took)
		}
	})
}
