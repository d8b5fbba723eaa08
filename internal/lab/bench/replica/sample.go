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

// processSample is one reading of a process.
type processSample struct {
	testbed.Usage
	written int64
}

func readProcess(m *testbed.Meter) (r processSample, err error) {
	if r.Usage, err = m.Read(); err != nil {
		return r, err
	}
	r.written, err = m.Written()
	return r, err
}

func (r processSample) since(before processSample) cost {
	return cost{CPUSeconds: (r.CPU - before.CPU).Seconds(), SentBytes: r.written - before.written, RSSBytes: r.RSS, PeakBytes: r.Peak}
}

// tier is the replicas at which informers read, or nil.
func (c *costs) tier() *cost {
	if len(c.Tiers) == 0 {
		return nil
	}
	return &c.Tiers[len(c.Tiers)-1]
}

func (c *cost) add(d cost) {
	c.CPUSeconds += d.CPUSeconds
	c.SentBytes += d.SentBytes
	c.RSSBytes += d.RSSBytes
	c.PeakBytes += d.PeakBytes
}

// sample is one reading of all processes.
type sample struct {
	upstream, etcd processSample
	tiers          [][]processSample
	client         time.Duration
}

func (s *servers) read() (r sample, err error) {
	if r.upstream, err = readProcess(s.upstreamMeter); err != nil {
		return r, err
	}
	for depth, tier := range s.tiers {
		r.tiers = append(r.tiers, nil)
		for _, replica := range tier {
			one, err := readProcess(replica.meter)
			if err != nil {
				return r, err
			}
			r.tiers[depth] = append(r.tiers[depth], one)
		}
	}
	r.client = testbed.ClientCPU()
	r.etcd, err = readProcess(s.etcdMeter)
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
	c = costs{Upstream: after.upstream.since(before.upstream), Etcd: after.etcd.since(before.etcd), ClientSeconds: (after.client - before.client).Seconds()}
	for depth, tier := range after.tiers {
		c.Tiers = append(c.Tiers, cost{})
		for i, one := range tier {
			c.Tiers[depth].add(one.since(before.tiers[depth][i]))
		}
	}
	return c, nil
}
