package quiet

import (
	"io"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// report is everything that "bench quiet" has measured. "-o json" prints it.
type report struct {
	Started time.Time       `json:"started"`
	Machine testbed.Machine `json:"machine"`
	// LoadAverage is that of the minute before.
	LoadAverage string   `json:"loadAverage"`
	Plan        plan     `json:"plan"`
	Upstream    string   `json:"upstream"` // program and version
	Results     []result `json:"results"`  // of one client
	Polls       []result `json:"polls"`
}

// frontNobody is in place of a front where writes alone are measured.
const frontNobody = "nobody"

// result is what the clients of one front have received, and what that has cost.
type result struct {
	Front        string  `json:"front"` // empty: all of them failed
	WriteRate    float64 `json:"writeRate"`
	WritesPerSec float64 `json:"writesPerSecond"` // the rate that was reached
	// Pollers are the clients of each kind; 0: one client has read in turn.
	Pollers int          `json:"pollers,omitempty"`
	Reads   []readResult `json:"reads,omitempty"`
	Cost    *cost        `json:"cost,omitempty"`
	Error   string       `json:"error,omitempty"` // not empty: nothing was measured
}

// readResult is that of reads of one kind.
type readResult struct {
	Kind     string `json:"kind"`
	Requests int    `json:"requests"` // that were answered
	// ByUpstream is how many of them the upstream has answered.
	ByUpstream int              `json:"byUpstream"`
	Refused    int              `json:"refused,omitempty"` // with 429
	Millis     render.Latencies `json:"millis"`
}

// cost is for each second, CPU in milliseconds. It has what the writes cost as well.
type cost struct {
	UpstreamCPU      float64 `json:"upstreamCPUMillis"`
	UpstreamRequests float64 `json:"upstreamRequests"` // without the writes
	ReplicaCPU       float64 `json:"replicaCPUMillis"` // of all replicas together
	EtcdCPU          float64 `json:"etcdCPUMillis"`
	ClientCPU        float64 `json:"clientCPUMillis"` // of readers and writer
}

// minus is what c is without another cost.
func (c cost) minus(o cost) cost {
	return cost{
		UpstreamCPU: max(0, c.UpstreamCPU-o.UpstreamCPU), UpstreamRequests: max(0, c.UpstreamRequests-o.UpstreamRequests),
		ReplicaCPU: max(0, c.ReplicaCPU-o.ReplicaCPU), EtcdCPU: max(0, c.EtcdCPU-o.EtcdCPU), ClientCPU: max(0, c.ClientCPU-o.ClientCPU),
	}
}

// Write prints the report in one of the formats of --output.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteWithPlot(out, format, r, r.text, r.plot)
}

// Failures implements testbed.Report.
func (r *report) Failures() (n int) {
	for _, results := range [][]result{r.Results, r.Polls} {
		for i := range results {
			if results[i].Error != "" {
				n++
			}
		}
	}
	return n
}

// costOf is what pollers of a front cost besides the writes, or nil if that is not known.
func (r *report) costOf(front string) *cost {
	var with, without *cost
	for i := range r.Polls {
		switch r.Polls[i].Front {
		case front:
			with = r.Polls[i].Cost
		case frontNobody:
			without = r.Polls[i].Cost
		}
	}
	if with == nil || without == nil {
		return nil
	}
	c := with.minus(*without)
	return &c
}

// read returns the reads of one kind, or nil if they were not measured.
func (r *result) read(kind string) *readResult {
	for i := range r.Reads {
		if r.Reads[i].Kind == kind {
			return &r.Reads[i]
		}
	}
	return nil
}
