package testbed

import (
	"context"
	"fmt"
	"time"
)

const (
	cpuMetric    = "process_cpu_seconds_total"
	memoryMetric = "process_resident_memory_bytes"
	// remoteTimeout bounds one reading of metrics.
	remoteTimeout = 30 * time.Second
	// remoteSampleInterval replaces PeakSampleInterval for a remote process. Each reading costs
	// the server some milliseconds of CPU.
	remoteSampleInterval = time.Second
)

// remoteProcess is a server that runs elsewhere. Its CPU and memory are in its metrics. If
// several servers share its address, the readings belong to none of them.
type remoteProcess struct {
	target *Target
	// unreadable is set if the first reading failed. All readings are then zero.
	unreadable bool
}

// NewRemoteMeter returns a meter of a server that runs elsewhere. If its metrics cannot be
// read, err says why. The meter is usable in any case: its readings are then zero.
func NewRemoteMeter(t *Target) (m *Meter, err error) {
	p := &remoteProcess{target: t}
	if _, err = p.read(); err != nil {
		p.unreadable = true
	}
	return &Meter{remote: p}, err
}

// read takes a reading. The zero Usage stands for a process whose metrics cannot be read.
func (p *remoteProcess) read() (Usage, error) {
	if p.unreadable {
		return Usage{}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), remoteTimeout)
	defer cancel()
	text, err := p.target.Metrics(ctx)
	if err != nil {
		return Usage{}, err
	}
	return parseProcessMetrics(text)
}

// parseProcessMetrics returns the CPU and memory of a process by the text of its metrics. The
// metrics have no peak: Peak is the present memory.
func parseProcessMetrics(text string) (Usage, error) {
	values := map[string]float64{}
	ParseMetrics(text, func(m Metric) { values[m.Name] = m.Value })
	for _, name := range []string{cpuMetric, memoryMetric} {
		if values[name] == 0 {
			return Usage{}, fmt.Errorf("read metrics: there is no %s", name)
		}
	}
	memory := int64(values[memoryMetric])
	return Usage{CPU: time.Duration(values[cpuMetric] * float64(time.Second)), RSS: memory, Peak: memory}, nil
}
