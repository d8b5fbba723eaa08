package usage

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// scale corrects estimates of CPU time. Go does not tell what a goroutine used, so
// a request's CPU is taken to be the time that it did not knowingly wait. On a busy
// machine it also waits for a processor, and for others that encode the same
// objects. So estimates of a second are made smaller by the factor by which those
// of the second before were more, together, than all that the process used.
type scale struct {
	// used is what the process has used. Nil corrects nothing.
	used func() time.Duration
	// claimed are the estimates since last, in nanoseconds.
	claimed atomic.Int64
	// factor holds the bits of a float64; 0 stands for 1.
	factor atomic.Uint64
	// next is when the factor is due, in Unix nanoseconds.
	next atomic.Int64

	mu struct {
		sync.Mutex
		last time.Duration
	}
}

const scalePeriod = time.Second

// apply corrects an estimate, in seconds.
func (s *scale) apply(now time.Time, cpu float64) float64 {
	if s.used == nil {
		return cpu
	}
	s.claimed.Add(int64(cpu * 1e9))
	if due := s.next.Load(); now.UnixNano() >= due && s.next.CompareAndSwap(due, now.Add(scalePeriod).UnixNano()) {
		s.renew(due == 0)
	}
	if bits := s.factor.Load(); bits != 0 {
		cpu *= math.Float64frombits(bits)
	}
	return cpu
}

// renew compares what was claimed with what was used. There is nothing to compare
// the first time.
func (s *scale) renew(first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.used()
	claimed, spent := s.claimed.Swap(0), int64(used-s.mu.last)
	s.mu.last = used
	if first || claimed <= 0 {
		return
	}
	s.factor.Store(math.Float64bits(max(0, min(1, float64(spent)/float64(claimed)))))
}
