package encode

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxAdmittedBytes bytes of large segments are with readers at once: hundreds that go
	// through large objects drift apart, and each would have a segment of its own.
	maxAdmittedBytes = 24 << 20
	// admissionFresh is how long a segment counts after the last reader began with it: slow
	// clients hold up the others only while they take more than flightMost of distinct
	// segments in that time.
	admissionFresh = time.Second
	// maxAdmissionWait is how long a reader waits for the others.
	maxAdmissionWait = 5 * time.Second
)

// segmentAdmission are the large segments that readers have. A reader shares what another has
// already; for another segment he waits until there is room, behind those that came
// before, but not for ever. The zero value is ready.
type segmentAdmission struct {
	sync.Mutex
	of map[*cell]*largeSegment
	// bytes are of those that count.
	bytes int64
	// waiting are in the order in which they came.
	waiting []*largeSegment
}

// largeSegment is one segment, for all of its readers.
type largeSegment struct {
	cell  *cell
	bytes int64
	// readers are those who wait for it or have it, the newest last.
	readers []*admissionTicket
	// admitted is closed when the readers may begin, which was at since.
	admitted   chan struct{}
	admittedAt time.Time
	// counted says that this or the newest reader's coming was lately.
	counted bool
}

// admissionTicket is a reader's part in a flight.
type admissionTicket struct {
	segment *largeSegment
	began   time.Time
}

// acquire returns when a reader may have a segment of about so many bytes. He must call
// end. A cell stands for the segment in one coding, kept or not.
func (a *segmentAdmission) acquire(c *cell, bytes int64) *admissionTicket {
	r := a.join(c, bytes)
	select {
	case <-r.segment.admitted:
		return r
	default:
	}
	patience, stale := time.NewTimer(maxAdmissionWait), time.NewTicker(admissionFresh)
	defer patience.Stop()
	defer stale.Stop()
	for {
		select {
		case <-r.segment.admitted:
			return r
		case <-stale.C:
			a.recheck()
		case <-patience.C:
			a.admitTimedOut(r.segment)
			return r
		}
	}
}

// recheck looks for room that time has made.
func (a *segmentAdmission) recheck() {
	a.Lock()
	defer a.Unlock()
	a.admitWaitingLocked(time.Now())
}

func (a *segmentAdmission) join(c *cell, bytes int64) *admissionTicket {
	a.Lock()
	defer a.Unlock()
	f, now := a.of[c], time.Now()
	if f == nil {
		if a.of == nil {
			a.of = map[*cell]*largeSegment{}
		}
		f = &largeSegment{cell: c, bytes: bytes, admitted: make(chan struct{})}
		a.of[c] = f
		a.waiting = append(a.waiting, f)
	} else if !f.admittedAt.IsZero() {
		a.setCountedLocked(f, true)
	}
	r := &admissionTicket{segment: f, began: now}
	f.readers = append(f.readers, r)
	a.admitWaitingLocked(now)
	return r
}

// stale says that nobody began lately.
func (f *largeSegment) stale(now time.Time) bool {
	n := len(f.readers)
	return n == 0 || now.Sub(f.admittedAt) >= admissionFresh && now.Sub(f.readers[n-1].began) >= admissionFresh
}

// setCountedLocked counts a segment, or does so no longer.
func (a *segmentAdmission) setCountedLocked(f *largeSegment, counts bool) {
	if f.counted == counts {
		return
	}
	if f.counted = counts; counts {
		a.bytes += f.bytes
	} else {
		a.bytes -= f.bytes
	}
}

// admitWaitingLocked lets those begin that there is room for.
func (a *segmentAdmission) admitWaitingLocked(now time.Time) {
	for len(a.waiting) > 0 {
		f := a.waiting[0]
		if a.fullLocked(f.bytes) {
			for _, old := range a.of {
				if old.stale(now) {
					a.setCountedLocked(old, false)
				}
			}
			if a.fullLocked(f.bytes) {
				return
			}
		}
		a.waiting[0] = nil
		a.waiting = a.waiting[1:]
		a.admitLocked(f, now)
	}
}

func (a *segmentAdmission) admitLocked(f *largeSegment, now time.Time) {
	f.admittedAt = now
	a.setCountedLocked(f, true)
	close(f.admitted)
}

// fullLocked says that there is no room for so many bytes more. One is always let in.
func (a *segmentAdmission) fullLocked(bytes int64) bool {
	return a.bytes > 0 && a.bytes+bytes > maxAdmittedBytes
}

// admitTimedOut lets a segment's readers begin that waited long enough.
func (a *segmentAdmission) admitTimedOut(f *largeSegment) {
	a.Lock()
	defer a.Unlock()
	if i := slices.Index(a.waiting, f); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
		a.admitLocked(f, time.Now())
	}
}

// release says that a reader is done.
func (a *segmentAdmission) release(r *admissionTicket) {
	a.Lock()
	defer a.Unlock()
	f, now := r.segment, time.Now()
	f.readers = slices.DeleteFunc(f.readers, func(o *admissionTicket) bool { return o == r })
	if len(f.readers) == 0 {
		delete(a.of, f.cell)
	}
	if f.stale(now) {
		a.setCountedLocked(f, false)
		a.admitWaitingLocked(now)
	}
}
