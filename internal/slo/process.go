package slo

import (
	"math"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// process watches whether this process runs when it should: how late a timer fires
// that is due every tickPeriod, how long goroutines that are ready wait for a thread,
// and how much it uses of the processors.
type process struct {
	mu struct {
		sync.Mutex
		delay, scheduling window[sketch]
		// used is the processor time at the ends of the last minute's parts.
		used []usage
		// before are the scheduling latencies that were counted already.
		before []uint64
	}
}

type usage struct {
	at  time.Time
	cpu time.Duration
}

const (
	tickPeriod = 50 * time.Millisecond
	// samplePeriod is how often the rest is read.
	samplePeriod = 5 * time.Second

	schedulingMetric = "/sched/latencies:seconds"
)

// fired notes that a timer fired some time after it was due.
func (p *process) fired(since, late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late = max(0, late)
	p.mu.delay.at(since, fine, (*sketch).reset).observe(late, bucket(late), 1)
}

// sample reads what the runtime counts.
func (p *process) sample(now time.Time, since time.Duration) {
	samples := []metrics.Sample{{Name: schedulingMetric}}
	metrics.Read(samples)
	cpu := processorTime()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.used = append(p.mu.used, usage{now, cpu})
	for len(p.mu.used) > 2 && now.Sub(p.mu.used[1].at) >= minute {
		p.mu.used = p.mu.used[1:]
	}
	if samples[0].Value.Kind() != metrics.KindFloat64Histogram {
		return
	}
	h := samples[0].Value.Float64Histogram()
	first := p.mu.before == nil
	if first {
		p.mu.before = make([]uint64, len(h.Counts))
	}
	into := p.mu.scheduling.at(since, fine, (*sketch).reset)
	for i, n := range h.Counts {
		if more := n - p.mu.before[i]; more > 0 && !first {
			d := time.Duration(upper(h, i) * float64(time.Second))
			into.observe(d, bucket(d), uint32(min(more, math.MaxUint32)))
		}
		p.mu.before[i] = n
	}
}

// upper is the end of a bucket, or its beginning if it has none.
func upper(h *metrics.Float64Histogram, i int) float64 {
	if end := h.Buckets[i+1]; !math.IsInf(end, 1) {
		return end
	}
	return h.Buckets[i]
}

func (p *process) report(since time.Duration) report.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	var delay, scheduling tally
	p.mu.delay.each(since, fine, delay.add)
	p.mu.scheduling.each(since, fine, scheduling.add)
	told := report.Process{Delay: delay.quantiles(), Scheduling: scheduling.quantiles(), Processors: runtime.GOMAXPROCS(0)}
	if n := len(p.mu.used); n > 1 {
		first, last := p.mu.used[0], p.mu.used[n-1]
		told.CPU = (last.cpu - first.cpu).Seconds() / last.at.Sub(first.at).Seconds()
	}
	return told
}
