package usage

import (
	"sync"
	"sync/atomic"
	"time"
)

// cpuScale reduces estimates of requests' CPU time, so that their sum is not more than the
// process used.
//
// Go does not report the CPU time of a goroutine. A clock of the thread would count other
// goroutines that ran on it, and miss what the request did on other threads. To lock each
// request to a thread would cost a switch of threads at each wait. So a request's estimate is
// the time in which it did not knowingly wait.
//
// On a busy machine that is too much. The request also waits for a processor, and for other
// requests that encode the same objects. Other waits may be unknown.
//
// So the process's CPU time of the last minute is kept by seconds. A request gets its CPU
// time out of the seconds of its life. What the process used in a second is given away once.
// The estimates of these seconds, or of the last shareSeconds, may add up to n times what the
// process used in them. The request then gets an n-th of its estimate. Otherwise short
// requests would leave nothing to long ones, which end later.
type cpuScale struct {
	// processCPU returns the CPU time that the process has used. If it is nil, nothing is
	// scaled.
	processCPU func() time.Duration
	// second is a copy of mu.newest, for readers that do not hold the lock. It is 0 before the
	// first reading after init.
	second atomic.Int64

	mu struct {
		sync.Mutex
		// seconds is a ring: second n of Unix time is at n % scaleSeconds.
		seconds [scaleSeconds]scaleSecond
		// newest is the second of the last reading.
		newest int64
		// readAt is the time of the last reading.
		readAt time.Time
		// cpu is the result of the last reading.
		cpu time.Duration
	}
}

// scaleSecond is a second of the process.
type scaleSecond struct {
	// used is the CPU time of the process. charged is how much of used was given to requests.
	used, charged time.Duration
	// estimated is the sum of the estimates of requests that have ended, each spread over
	// the seconds of its life.
	estimated time.Duration
}

const (
	scaleSeconds = 60
	// shareSeconds are the last seconds whose estimates are compared with the process.
	shareSeconds = 10
	// minReadPeriod bounds how often the process's CPU is read, which takes a microsecond.
	minReadPeriod = time.Millisecond
)

func (s *cpuScale) init(processCPU func() time.Duration, now time.Time) {
	if s.processCPU = processCPU; processCPU != nil {
		s.mu.cpu, s.mu.newest, s.mu.readAt = processCPU(), now.Unix(), now
	}
}

// begin records that a request begins at now: CPU that was used before is not the request's.
func (s *cpuScale) begin(now time.Time) {
	if s.processCPU == nil || now.Unix() <= s.second.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readLocked(now)
}

// apply scales the estimate of the CPU time of a request that has ended now. cpu is the
// estimate and seconds is how long the request took, both in seconds.
func (s *cpuScale) apply(now time.Time, cpu, seconds float64) float64 {
	if s.processCPU == nil || cpu <= 0 {
		return cpu
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Unix() > s.mu.newest {
		s.readLocked(now)
	}
	estimate := toDuration(cpu)
	began := min(s.mu.newest, max(now.Add(-toDuration(seconds)).Unix(), s.mu.newest-scaleSeconds+1))
	s.spreadLocked(began, func(s *scaleSecond, n int64) { s.estimated += estimate / time.Duration(n) })
	charged := s.chargeLocked(began, estimate, 0)
	if charged < estimate && now.Sub(s.mu.readAt) >= minReadPeriod {
		s.readLocked(now)
		charged = s.chargeLocked(began, estimate, charged)
	}
	return charged.Seconds()
}

func toDuration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// chargeLocked gives a request CPU of the seconds from began on. charged is what the
// request was given before. chargeLocked returns what the request has afterwards.
func (s *cpuScale) chargeLocked(began int64, estimate, charged time.Duration) time.Duration {
	var used, estimated time.Duration
	for second := min(began, s.mu.newest-shareSeconds+1); second <= s.mu.newest; second++ {
		slot := &s.mu.seconds[second%scaleSeconds]
		used += slot.used
		estimated += slot.estimated
	}
	share := estimate
	if used < estimated {
		share = time.Duration(float64(estimate) * float64(used) / float64(estimated))
	}
	// The oldest seconds come first, because only long requests can use them.
	for second := began; second <= s.mu.newest && charged < share; second++ {
		slot := &s.mu.seconds[second%scaleSeconds]
		part := min(share-charged, slot.used-slot.charged)
		slot.charged += part
		charged += part
	}
	return charged
}

// readLocked reads the process's CPU. What was used since the last reading is spread from
// the second of that reading to the one before now.
func (s *cpuScale) readLocked(now time.Time) {
	before, second := s.mu.newest, max(s.mu.newest, now.Unix())
	for n := max(before, second-scaleSeconds) + 1; n <= second; n++ {
		s.mu.seconds[n%scaleSeconds] = scaleSecond{}
	}
	s.mu.newest, s.mu.readAt = second, now
	s.second.Store(second)
	cpu := s.processCPU()
	used := cpu - s.mu.cpu
	s.mu.cpu = cpu
	s.spreadLocked(before, func(s *scaleSecond, n int64) { s.used += used / time.Duration(n) })
}

// spreadLocked calls add for each second from the second from to the newest second. It
// leaves out the newest second, unless that is the only one. n is the number of these
// seconds. It includes seconds that the ring no longer has.
func (s *cpuScale) spreadLocked(from int64, add func(s *scaleSecond, n int64)) {
	n := max(1, s.mu.newest-from)
	for second := max(from, s.mu.newest-scaleSeconds+1); second < from+n; second++ {
		add(&s.mu.seconds[second%scaleSeconds], n)
	}
}
