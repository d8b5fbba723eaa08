package slo

import (
	"math"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/account/cputime"
	"github.com/millrace/millrace/internal/account/serverreport"
)

// process measures whether this process runs when it should. It measures how late timers
// fire, how long ready goroutines wait for a processor, and how much CPU the process uses.
// Watches.Run measures, and reports read.
type process struct {
	mu struct {
		sync.Mutex
		delay, scheduling slidingMinute[sketch]
		// samples cover the last minute, the oldest first: all but the first are younger.
		samples []cpuSample
		// priorCounts are the runtime's latency counts at the last sample.
		priorCounts []uint64
	}
}

// cpuSample is the CPU time that the process had used by the time at.
type cpuSample struct {
	at  time.Time
	cpu time.Duration
}

const (
	// tickPeriod is the period of the timer whose delay is measured.
	tickPeriod = 50 * time.Millisecond
	// samplePeriod is how often CPU time and scheduling latencies are read.
	samplePeriod = 5 * time.Second

	schedulingMetric = "/sched/latencies:seconds"
)

// timerFired records how late the timer fired. offset is the present time, as an offset from
// Watches.startedAt.
func (p *process) timerFired(offset, late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late = max(0, late)
	p.mu.delay.slotFor(offset, fineSlot, (*sketch).reset).observe(late, bucket(late), 1)
}

// sample reads CPU time and the runtime's scheduling latencies. offset is now, as an offset from
// Watches.startedAt.
func (p *process) sample(now time.Time, offset time.Duration) {
	latencies := []metrics.Sample{{Name: schedulingMetric}}
	metrics.Read(latencies)
	var cpu time.Duration
	if read := cputime.Reader(); read != nil {
		cpu = read()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.samples = append(p.mu.samples, cpuSample{now, cpu})
	for len(p.mu.samples) > 2 && now.Sub(p.mu.samples[1].at) >= time.Minute {
		p.mu.samples = p.mu.samples[1:]
	}
	if latencies[0].Value.Kind() != metrics.KindFloat64Histogram {
		return
	}
	h := latencies[0].Value.Float64Histogram()
	first := p.mu.priorCounts == nil
	if first {
		p.mu.priorCounts = make([]uint64, len(h.Counts))
	}
	slot := p.mu.scheduling.slotFor(offset, fineSlot, (*sketch).reset)
	for i, n := range h.Counts {
		if added := n - p.mu.priorCounts[i]; added > 0 && !first {
			d := time.Duration(bucketEnd(h, i) * float64(time.Second))
			slot.observe(d, bucket(d), uint32(min(added, math.MaxUint32)))
		}
		p.mu.priorCounts[i] = n
	}
}

// bucketEnd returns the upper bound of the runtime's bucket i. The last bucket has no upper
// bound: bucketEnd returns its lower bound.
func bucketEnd(h *metrics.Float64Histogram, i int) float64 {
	if end := h.Buckets[i+1]; !math.IsInf(end, 1) {
		return end
	}
	return h.Buckets[i]
}

func (p *process) report(offset time.Duration) serverreport.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	var delay, scheduling tally
	p.mu.delay.eachSlot(offset, fineSlot, delay.add)
	p.mu.scheduling.eachSlot(offset, fineSlot, scheduling.add)
	row := serverreport.Process{Delay: delay.quantiles(), Scheduling: scheduling.quantiles(), Processors: runtime.GOMAXPROCS(0)}
	if n := len(p.mu.samples); n > 1 {
		first, last := p.mu.samples[0], p.mu.samples[n-1]
		row.CPU = (last.cpu - first.cpu).Seconds() / last.at.Sub(first.at).Seconds()
	}
	return row
}
