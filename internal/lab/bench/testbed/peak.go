package testbed

import (
	"sync"
	"time"
)

// PeakSampleInterval is the time between readings of RSS during PeakDuring, for a process of
// this machine. The readings replace the kernel's peak where the kernel does not permit to reset it.
const PeakSampleInterval = 20 * time.Millisecond

// maxTraceSamples bounds a trace without its last sample. A full trace loses every second sample.
const maxTraceSamples = 120

// MemorySample is the RSS of a process at a time since the start of a trace.
type MemorySample struct {
	Seconds  float64 `json:"s"`
	RSSBytes int64   `json:"rss"`
}

// memoryTrace keeps samples that are evenly spread over a time of any length.
type memoryTrace struct {
	samples []MemorySample
	stride  int // every stride-th sample is kept; 0 stands for 1
	seen    int
}

// add keeps a sample, unless the stride leaves it out. A full trace drops every second sample,
// and doubles the stride.
func (t *memoryTrace) add(s MemorySample) {
	t.stride = max(t.stride, 1)
	if t.seen%t.stride == 0 {
		if len(t.samples) == maxTraceSamples {
			for i := range maxTraceSamples / 2 {
				t.samples[i] = t.samples[2*i]
			}
			t.samples, t.stride = t.samples[:maxTraceSamples/2], 2*t.stride
		}
		t.samples = append(t.samples, s)
	}
	t.seen++
}

func (m *Meter) sampleInterval() time.Duration {
	if m.remote != nil {
		return remoteSampleInterval
	}
	return PeakSampleInterval
}

// PeakDuring runs work. It returns the RSS before work and the highest RSS during work, in
// bytes, and the error of work.
func (m *Meter) PeakDuring(work func() error) (before, peak int64, err error) {
	before, peak, _, err = m.TraceDuring(work)
	return before, peak, err
}

// TraceDuring is PeakDuring, but also returns the RSS over time.
func (m *Meter) TraceDuring(work func() error) (before, peak int64, trace []MemorySample, err error) {
	reset := m.ResetPeak()
	start, err := m.Read()
	if err != nil {
		return 0, 0, nil, err
	}
	peak = start.RSS
	var t memoryTrace
	began, ended := time.Now(), make(chan struct{})
	sample := func(rss int64) MemorySample {
		return MemorySample{Seconds: time.Since(began).Round(time.Millisecond).Seconds(), RSSBytes: rss}
	}
	t.add(sample(start.RSS))
	var sampling sync.WaitGroup
	sampling.Go(func() {
		ticker := time.NewTicker(m.sampleInterval())
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				// If the process has ended, the reading after work fails too.
				if now, err := m.Read(); err == nil {
					peak = max(peak, now.RSS)
					t.add(sample(now.RSS))
				}
			case <-ended:
				return
			}
		}
	})
	err = work()
	close(ended)
	sampling.Wait()
	if err != nil {
		return start.RSS, peak, t.samples, err
	}
	after, err := m.Read()
	if err == nil {
		t.samples = append(t.samples, sample(after.RSS))
		if reset {
			peak = max(peak, after.Peak)
		}
	}
	return start.RSS, peak, t.samples, err
}
