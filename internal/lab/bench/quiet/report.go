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
	// LoadAverage is the load of the machine in the minute before.
	LoadAverage string   `json:"loadAverage"`
	Plan        plan     `json:"plan"`
	Upstream    string   `json:"upstream"` // program and version
	Results     []result `json:"results"`  // of one client
	Polls       []result `json:"polls"`
}

// frontNobody replaces the name of a front in the result of writes alone.
const frontNobody = "nobody"

// result has the answers to the clients of one front, and their cost.
type result struct {
	Front        string  `json:"front"` // empty: the reads at all fronts failed
	WriteRate    float64 `json:"writeRate"`
	WritesPerSec float64 `json:"writesPerSecond"` // the rate that was reached
	// Pollers is the number of clients of each kind. 0: one client has read at one front after the other.
	Pollers int          `json:"pollers,omitempty"`
	Reads   []readResult `json:"reads,omitempty"`
	Cost    *cost        `json:"cost,omitempty"`
	Error   string       `json:"error,omitempty"` // not empty: nothing was measured
}

// readResult has the answers to reads of one kind.
type readResult struct {
	Kind     string `json:"kind"`
	Requests int    `json:"requests"` // answered ones
	// ByUpstream is the number of Requests that the upstream has answered.
	ByUpstream int              `json:"byUpstream"`
	Refused    int              `json:"refused,omitempty"` // requests answered with 429
	Millis     render.Latencies `json:"millis"`
}

// cost is a cost for each second, with CPU in milliseconds. It contains the cost of the writes.
type cost struct {
	UpstreamCPUMillis float64 `json:"upstreamCPUMillis"`
	UpstreamRequests  float64 `json:"upstreamRequests"` // without the writes
	ReplicaCPUMillis  float64 `json:"replicaCPUMillis"` // of all replicas and the proxy together
	EtcdCPUMillis     float64 `json:"etcdCPUMillis"`
	ClientCPUMillis   float64 `json:"clientCPUMillis"` // of this process, which reads and writes
}

// minus returns c less another cost. No field gets below 0.
func (c cost) minus(o cost) cost {
	return cost{
		UpstreamCPUMillis: max(0, c.UpstreamCPUMillis-o.UpstreamCPUMillis), UpstreamRequests: max(0, c.UpstreamRequests-o.UpstreamRequests),
		ReplicaCPUMillis: max(0, c.ReplicaCPUMillis-o.ReplicaCPUMillis), EtcdCPUMillis: max(0, c.EtcdCPUMillis-o.EtcdCPUMillis),
		ClientCPUMillis: max(0, c.ClientCPUMillis-o.ClientCPUMillis),
	}
}

// Write implements testbed.Report.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteWithPlot(out, format, r, r.text, r.plot)
}

// FailureCount implements testbed.Report.
func (r *report) FailureCount() (n int) {
	for _, results := range [][]result{r.Results, r.Polls} {
		for i := range results {
			if results[i].Error != "" {
				n++
			}
		}
	}
	return n
}

// netCost returns the cost of the pollers of a front, less the cost of the writes. It returns nil if
// either was not measured.
func (r *report) netCost(front string) *cost {
	var polling, writing *cost
	for i := range r.Polls {
		switch r.Polls[i].Front {
		case front:
			polling = r.Polls[i].Cost
		case frontNobody:
			writing = r.Polls[i].Cost
		}
	}
	if polling == nil || writing == nil {
		return nil
	}
	c := polling.minus(*writing)
	return &c
}

// readsOf returns the answers to reads of one kind, or nil if these were not measured.
func (r *result) readsOf(kind string) *readResult {
	for i := range r.Reads {
		if r.Reads[i].Kind == kind {
			return &r.Reads[i]
		}
	}
	return nil
}
