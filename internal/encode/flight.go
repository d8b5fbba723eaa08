package encode

import (
	"slices"
	"sync"
	"time"
)

const (
	// flightMost bytes of large segments are with readers at once: hundreds that go
	// through large objects drift apart, and each would have a segment of its own.
	flightMost = 24 << 20
	// flightFresh is how long a segment counts after the last reader began with it: slow
	// clients hold up the others only while they take more than flightMost of distinct
	// segments in that time.
	flightFresh = time.Second
	// flightPatience is how long a reader waits for the others.
	flightPatience = 5 * time.Second
)

// flights are the large segments that readers have. A reader shares what another has
// already; for another segment he waits until there is room, behind those that came
// before, but not for ever. The zero value is ready.
type flights struct {
	sync.Mutex
	of map[*cell]*flight
	// bytes are of those that count.
	bytes int64
	// waiting are in the order in which they came.
	waiting []*flight
}

// flight is one segment, for all of its readers.
type flight struct {
	cell  *cell
	bytes int64
	// readers are those who wait for it or have it, the newest last.
	readers []*flown
	// cleared is closed when the readers may begin, which was at since.
	cleared chan struct{}
	since   time.Time
	// counts says that this or the newest reader's coming was lately.
	counts bool
}

// flown is a reader's part in a flight.
type flown struct {
	flight *flight
	began  time.Time
}

// begin returns when a reader may have a segment of about so many bytes. He must call
// end. A cell stands for the segment in one coding, kept or not.
func (x *flights) begin(c *cell, bytes int64) *flown {
	r := x.join(c, bytes)
	select {
	case <-r.flight.cleared:
		return r
	default:
	}
	patience, stale := time.NewTimer(flightPatience), time.NewTicker(flightFresh)
	defer patience.Stop()
	defer stale.Stop()
	for {
		select {
		case <-r.flight.cleared:
			return r
		case <-stale.C:
			x.look()
		case <-patience.C:
			x.hurry(r.flight)
			return r
		}
	}
}

// look looks for room that time has made.
func (x *flights) look() {
	x.Lock()
	defer x.Unlock()
	x.clearLocked(time.Now())
}

func (x *flights) join(c *cell, bytes int64) *flown {
	x.Lock()
	defer x.Unlock()
	f, now := x.of[c], time.Now()
	if f == nil {
		if x.of == nil {
			x.of = map[*cell]*flight{}
		}
		f = &flight{cell: c, bytes: bytes, cleared: make(chan struct{})}
		x.of[c] = f
		x.waiting = append(x.waiting, f)
	} else if !f.since.IsZero() {
		x.countLocked(f, true)
	}
	r := &flown{flight: f, began: now}
	f.readers = append(f.readers, r)
	x.clearLocked(now)
	return r
}

// stale says that nobody began lately.
func (f *flight) stale(now time.Time) bool {
	n := len(f.readers)
	return n == 0 || now.Sub(f.since) >= flightFresh && now.Sub(f.readers[n-1].began) >= flightFresh
}

// countLocked counts a segment, or does so no longer.
func (x *flights) countLocked(f *flight, counts bool) {
	if f.counts == counts {
		return
	}
	if f.counts = counts; counts {
		x.bytes += f.bytes
	} else {
		x.bytes -= f.bytes
	}
}

// clearLocked lets those begin that there is room for.
func (x *flights) clearLocked(now time.Time) {
	for len(x.waiting) > 0 {
		f := x.waiting[0]
		if x.fullLocked(f.bytes) {
			for _, old := range x.of {
				if old.stale(now) {
					x.countLocked(old, false)
				}
			}
			if x.fullLocked(f.bytes) {
				return
			}
		}
		x.waiting[0] = nil
		x.waiting = x.waiting[1:]
		x.admitLocked(f, now)
	}
}

func (x *flights) admitLocked(f *flight, now time.Time) {
	f.since = now
	x.countLocked(f, true)
	close(f.cleared)
}

// fullLocked says that there is no room for so many bytes more. One is always let in.
func (x *flights) fullLocked(bytes int64) bool { return x.bytes > 0 && x.bytes+bytes > flightMost }

// hurry lets a segment's readers begin that waited long enough.
func (x *flights) hurry(f *flight) {
	x.Lock()
	defer x.Unlock()
	if i := slices.Index(x.waiting, f); i >= 0 {
		x.waiting = slices.Delete(x.waiting, i, i+1)
		x.admitLocked(f, time.Now())
	}
}

// end says that a reader is done.
func (x *flights) end(r *flown) {
	x.Lock()
	defer x.Unlock()
	f, now := r.flight, time.Now()
	f.readers = slices.DeleteFunc(f.readers, func(o *flown) bool { return o == r })
	if len(f.readers) == 0 {
		delete(x.of, f.cell)
	}
	if f.stale(now) {
		x.countLocked(f, false)
		x.clearLocked(now)
	}
}
