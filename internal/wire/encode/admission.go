package encode

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxAdmittedBytes bounds the distinct large segments that readers have at the same time.
	// Hundreds of readers that go through large objects drift apart; without a bound
	// each would hold a segment of its own.
	maxAdmittedBytes = 24 << 20
	// admissionFresh is how long a segment counts against the bound after its newest
	// reader was admitted. So readers that stall delay others for this long at most.
	admissionFresh = time.Second
	// maxAdmissionWait is how long a reader waits for others before it is admitted
	// regardless of the bound.
	maxAdmissionWait = 5 * time.Second
)

// segmentAdmission limits the bytes of large segments that readers have at the same time. Large
// segments are not kept by the budget, so their memory is bounded by their readers alone.
//
// A plain semaphore would make readers of the same segment wait for each other, although
// they share its bytes. So the unit is the segment. A reader joins a segment that another
// reader has, at no cost. It waits only for a segment that is not admitted. Waiting segments
// are admitted in order of arrival. This lets readers that drifted apart come together
// again.
//
// A reader holds its segment while it writes to its client, and clients may stall. Two
// rules keep stalled readers from blocking the others. A segment whose newest reader is
// older than admissionFresh no longer counts. And no reader waits longer than
// maxAdmissionWait. So the bound is exceeded by the bytes of stalled readers, whose number
// priority and fairness bound.
//
// The zero value is ready. The lock is a leaf, and no caller waits with a lock held.
type segmentAdmission struct {
	mu struct {
		sync.Mutex
		// segments are the large segments that readers have or wait for. The key is the
		// cell that stands for a segment in one coding, whether the cell is filled or
		// not.
		segments map[*cell]*largeSegment
		// bytes is the sum over segments that are counted.
		bytes int64
		// waiting are the segments that are not admitted yet, in order of arrival.
		waiting []*largeSegment
	}
}

// largeSegment is a segment with all of its readers. segmentAdmission.mu guards its fields,
// except for cell, bytes and the channel itself, which do not change.
type largeSegment struct {
	cell *cell
	// bytes is an estimate of the plain length.
	bytes int64
	// readers are the readers that wait for the segment or have it, in order of arrival.
	readers []*admissionTicket
	// admitted is closed when the readers may begin.
	admitted chan struct{}
	// admittedAt is when admitted was closed. It is zero before that.
	admittedAt time.Time
	// counted says that bytes are part of segmentAdmission.mu.bytes. A segment is counted
	// from its admission on, until it is found to be stale.
	counted bool
}

// admissionTicket is one reader of a large segment.
type admissionTicket struct {
	segment   *largeSegment
	arrivedAt time.Time
}

// acquire returns when the caller may have a segment of about bytes plain bytes. The
// caller must release the ticket. c is the segment's cell for one coding.
func (a *segmentAdmission) acquire(c *cell, bytes int64) *admissionTicket {
	ticket := a.join(c, bytes)
	select {
	case <-ticket.segment.admitted:
		return ticket
	default:
	}
	timeout, recheck := time.NewTimer(maxAdmissionWait), time.NewTicker(admissionFresh)
	defer timeout.Stop()
	defer recheck.Stop()
	for {
		select {
		case <-ticket.segment.admitted:
			return ticket
		case <-recheck.C:
			a.recheck()
		case <-timeout.C:
			a.admitTimedOut(ticket.segment)
			return ticket
		}
	}
}

// acquireTimed is acquire. At the end it calls waited, if that is not nil, with the beginning.
func (a *segmentAdmission) acquireTimed(c *cell, bytes int64, waited func(since time.Time)) *admissionTicket {
	if waited != nil {
		defer waited(time.Now())
	}
	return a.acquire(c, bytes)
}

// recheck admits segments for which the passage of time has made room.
func (a *segmentAdmission) recheck() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.admitWaitingLocked(time.Now())
}

// join adds a reader to a segment, and admits what can be admitted.
func (a *segmentAdmission) join(c *cell, bytes int64) *admissionTicket {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, now := a.mu.segments[c], time.Now()
	if s == nil {
		if a.mu.segments == nil {
			a.mu.segments = map[*cell]*largeSegment{}
		}
		s = &largeSegment{cell: c, bytes: bytes, admitted: make(chan struct{})}
		a.mu.segments[c] = s
		a.mu.waiting = append(a.mu.waiting, s)
	} else if !s.admittedAt.IsZero() {
		a.setCountedLocked(s, true)
	}
	ticket := &admissionTicket{segment: s, arrivedAt: now}
	s.readers = append(s.readers, ticket)
	a.admitWaitingLocked(now)
	return ticket
}

// stale reports whether the segment need no longer count. It has no readers, or its admission
// and the arrival of its newest reader are at least admissionFresh ago.
func (s *largeSegment) stale(now time.Time) bool {
	n := len(s.readers)
	return n == 0 || now.Sub(s.admittedAt) >= admissionFresh && now.Sub(s.readers[n-1].arrivedAt) >= admissionFresh
}

func (a *segmentAdmission) setCountedLocked(s *largeSegment, counted bool) {
	if s.counted == counted {
		return
	}
	if s.counted = counted; counted {
		a.mu.bytes += s.bytes
	} else {
		a.mu.bytes -= s.bytes
	}
	a.checkLocked()
}

// admitWaitingLocked admits waiting segments in order until the bound is reached. Only
// then it looks for stale segments, which takes a walk through all of them.
func (a *segmentAdmission) admitWaitingLocked(now time.Time) {
	for len(a.mu.waiting) > 0 {
		s := a.mu.waiting[0]
		if a.fullLocked(s.bytes) {
			for _, old := range a.mu.segments {
				if old.stale(now) {
					a.setCountedLocked(old, false)
				}
			}
			if a.fullLocked(s.bytes) {
				return
			}
		}
		a.mu.waiting[0] = nil
		a.mu.waiting = a.mu.waiting[1:]
		a.admitLocked(s, now)
	}
}

func (a *segmentAdmission) admitLocked(s *largeSegment, now time.Time) {
	s.admittedAt = now
	a.setCountedLocked(s, true)
	close(s.admitted)
}

// fullLocked reports whether there is no room for that many bytes more. There always is
// room for one segment, however large.
func (a *segmentAdmission) fullLocked(bytes int64) bool {
	return a.mu.bytes > 0 && a.mu.bytes+bytes > maxAdmittedBytes
}

// admitTimedOut admits a segment whose reader has waited for maxAdmissionWait.
func (a *segmentAdmission) admitTimedOut(s *largeSegment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.mu.waiting, s); i >= 0 {
		a.mu.waiting = slices.Delete(a.mu.waiting, i, i+1)
		a.admitLocked(s, time.Now())
	}
}

// release ends a reader's use of its segment.
func (a *segmentAdmission) release(ticket *admissionTicket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, now := ticket.segment, time.Now()
	s.readers = slices.DeleteFunc(s.readers, func(o *admissionTicket) bool { return o == ticket })
	if len(s.readers) == 0 {
		delete(a.mu.segments, s.cell)
	}
	if s.stale(now) {
		a.setCountedLocked(s, false)
		a.admitWaitingLocked(now)
	}
}
