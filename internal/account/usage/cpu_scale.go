package usage

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// cpuScale scales estimates of requests' CPU time, so that their sum is not more than
// the process used.
//
// Go does not report the CPU time of a goroutine. So a request's CPU is taken to be
// the time in which it did not knowingly wait. On a busy machine that is too much: the
// request also waits for a processor, and for other requests that encode the same
// objects. Each second the factor is set to
//
//	CPU of the process / sum of the estimates
//
// of the second before, and to 1 at most.
type cpuScale struct {
	// processCPU returns the CPU time that the process has used. Nil scales nothing.
	processCPU func() time.Duration
	// estimated is the sum of the estimates since the last update, in nanoseconds.
	estimated atomic.Int64
	// factor holds the bits of a float64. Zero stands for 1.
	factor atomic.Uint64
	// due is the time of the next update, in Unix nanoseconds. Zero means that there
	// was none.
	due atomic.Int64

	mu struct {
		sync.Mutex
		// lastCPU is the result of processCPU at the last update.
		lastCPU time.Duration
	}
}

const scalePeriod = time.Second

// apply scales an estimate, in seconds. One of its callers updates the factor when
// that is due.
func (s *cpuScale) apply(now time.Time, cpu float64) float64 {
	if s.processCPU == nil {
		return cpu
	}
	s.estimated.Add(int64(cpu * 1e9))
	if due := s.due.Load(); now.UnixNano() >= due && s.due.CompareAndSwap(due, now.Add(scalePeriod).UnixNano()) {
		s.updateFactor(due == 0)
	}
	if bits := s.factor.Load(); bits != 0 {
		cpu *= math.Float64frombits(bits)
	}
	return cpu
}

// updateFactor sets the factor. The first call only notes the process' CPU.
func (s *cpuScale) updateFactor(first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cpu := s.processCPU()
	estimated, used := s.estimated.Swap(0), int64(cpu-s.mu.lastCPU)
	s.mu.lastCPU = cpu
	if first || estimated <= 0 {
		return
	}
	s.factor.Store(math.Float64bits(max(0, min(1, float64(used)/float64(estimated)))))
}
