package replica

import (
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// cost is what a process, or several together, have used during a measurement.
type cost struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	// SentBytes is the number of bytes that the process has handed to the kernel. Nearly all of
	// them went to connections, after TLS.
	SentBytes int64 `json:"sentBytes"`
	// RSSBytes is the RSS at the end. PeakBytes is the highest RSS since the process started.
	RSSBytes  int64 `json:"rssBytes"`
	PeakBytes int64 `json:"peakBytes"`
}

// costs are the costs of the processes of a setup.
type costs struct {
	Upstream cost `json:"upstream"`
	// Tiers has the sum of the replicas at each depth.
	Tiers []cost `json:"tiers,omitempty"`
	Etcd  cost   `json:"etcd"`
	// ClientCPUSeconds is the CPU of the fleet, and of the writer.
	ClientCPUSeconds float64 `json:"clientCPUSeconds"`
}

// costBetween returns what processes have used between two readings.
func costBetween(before, after testbed.Total) cost {
	return cost{CPUSeconds: (after.CPU - before.CPU).Seconds(), SentBytes: after.BytesWritten - before.BytesWritten,
		RSSBytes: after.RSS, PeakBytes: after.Peak}
}

// tier returns the cost of the replicas at which informers read, or nil if there are none.
func (c *costs) tier() *cost {
	if len(c.Tiers) == 0 {
		return nil
	}
	return &c.Tiers[len(c.Tiers)-1]
}

// sample is one reading of all processes.
type sample struct {
	upstream, etcd testbed.Total
	tiers          []testbed.Total
	client         time.Duration // CPU of this process
}

// takeSample takes a reading of all processes of a setup, etcd and this process.
func (s *servers) takeSample() (r sample, err error) {
	if r.upstream, err = testbed.ReadAll(s.upstream.Meter()); err != nil {
		return r, err
	}
	for _, tier := range s.tiers {
		total, err := testbed.ReadServers(tier)
		if err != nil {
			return r, err
		}
		r.tiers = append(r.tiers, total)
	}
	r.client = testbed.ClientCPU()
	r.etcd, err = testbed.ReadAll(testbed.NewMeter(s.bed.EtcdPID()))
	return r, err
}

// measureCosts runs work, and returns its costs, or its error.
func (s *servers) measureCosts(work func() error) (c costs, err error) {
	before, err := s.takeSample()
	if err != nil {
		return c, err
	}
	if err := work(); err != nil {
		return c, err
	}
	after, err := s.takeSample()
	if err != nil {
		return c, err
	}
	c = costs{Upstream: costBetween(before.upstream, after.upstream), Etcd: costBetween(before.etcd, after.etcd),
		ClientCPUSeconds: (after.client - before.client).Seconds()}
	for depth := range after.tiers {
		c.Tiers = append(c.Tiers, costBetween(before.tiers[depth], after.tiers[depth]))
	}
	return c, nil
}
