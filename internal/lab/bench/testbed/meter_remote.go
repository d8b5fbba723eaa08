package testbed

import (
	"context"
	"fmt"
	"time"
)

const (
	cpuMetric, memoryMetric = "process_cpu_seconds_total", "process_resident_memory_bytes"
	// remoteTimeout bounds one reading of metrics.
	remoteTimeout = 30 * time.Second
	// remoteSampleInterval is PeakSampleInterval of a remote process. Each reading costs the
	// server some milliseconds of CPU.
	remoteSampleInterval = time.Second
)

// remoteProcess is a server that runs elsewhere. It tells its CPU and memory in its metrics.
// Behind one address several servers may answer: the figures then belong to none of them.
type remoteProcess struct {
	target *Target
	// unreadable is set if the first reading failed. All readings are then zero.
	unreadable bool
}

// NewRemoteMeter returns a meter of a server that runs elsewhere. If the server does not let
// its metrics be read, all readings of CPU and memory are zero, and err says why.
func NewRemoteMeter(t *Target) (m *Meter, err error) {
	p := &remoteProcess{target: t}
	if _, err = p.read(); err != nil {
		p.unreadable = true
	}
	return &Meter{remote: p}, err
}

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

// parseProcessMetrics finds the CPU and memory of a process in the text of its metrics.
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
