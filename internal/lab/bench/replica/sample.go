package replica

import (
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// cost is what a process has used during a measurement.
type cost struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	// SentBytes is what the process has handed to the kernel: nearly all of it went to
	// connections, after TLS.
	SentBytes int64 `json:"sentBytes"`
	// RSSBytes is at the end. PeakBytes is since the process has started.
	RSSBytes  int64 `json:"rssBytes"`
	PeakBytes int64 `json:"peakBytes"`
}

// costs are those of the processes of a setup.
type costs struct {
	Upstream cost `json:"upstream"`
	// Tiers are the replicas by depth, each the sum of those at that depth.
	Tiers []cost `json:"tiers,omitempty"`
	Etcd  cost   `json:"etcd"`
	// ClientSeconds is the CPU of the fleet, and of the writer.
	ClientSeconds float64 `json:"clientCPUSeconds"`
}

// costBetween is what processes have used between two readings.
func costBetween(before, after testbed.Total) cost {
	return cost{CPUSeconds: (after.CPU - before.CPU).Seconds(), SentBytes: after.Written - before.Written, RSSBytes: after.RSS, PeakBytes: after.Peak}
}

// tier is the replicas at which informers read, or nil.
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
	client         time.Duration
}

func (s *servers) read() (r sample, err error) {
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

// costsOf runs work, and returns what it has cost.
func (s *servers) costsOf(work func() error) (c costs, err error) {
	before, err := s.read()
	if err != nil {
		return c, err
	}
	if err := work(); err != nil {
		return c, err
	}
	after, err := s.read()
	if err != nil {
		return c, err
	}
	c = costs{Upstream: costBetween(before.upstream, after.upstream), Etcd: costBetween(before.etcd, after.etcd), ClientSeconds: (after.client - before.client).Seconds()}
	for depth := range after.tiers {
		c.Tiers = append(c.Tiers, costBetween(before.tiers[depth], after.tiers[depth]))
	}
	return c, nil
}
