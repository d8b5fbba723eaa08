package provision

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/hollow"
	"github.com/millrace/millrace/internal/tool/render"
)

// report is everything that "bench provision" has measured. "-o json" prints it.
type report struct {
	Started time.Time       `json:"started"`
	Machine testbed.Machine `json:"machine"`
	// LoadAverage is the load of the machine in the minute before.
	LoadAverage string   `json:"loadAverage,omitempty"`
	Plan        plan     `json:"plan"`
	Results     []result `json:"results"`

	page string // the file of --report; empty: no page is written
}

// result is the measurement of one path in one turn.
type result struct {
	Path     string `json:"path"`
	Server   string `json:"server,omitempty"`   // version
	Upstream string `json:"upstream,omitempty"` // the read path of a replica's upstream
	// Seconds is the time from the first creation until all pods run and every watcher knows.
	Seconds float64 `json:"seconds,omitempty"`
	// Steps has the times of each step, by the step's name.
	Steps map[string]quantiles `json:"steps,omitempty"`

	Costs []cost `json:"costs,omitempty"`
	// PeaksSinceStart says that the kernel did not permit to reset peaks of memory. They then count
	// from the start of the processes.
	PeaksSinceStart  bool    `json:"peaksSinceStart,omitempty"`
	ClientCPUSeconds float64 `json:"clientCPUSeconds,omitempty"` // hollow nodes and watchers
	// OtherCPUSeconds is the CPU of the machine for programs that are not part of the measurement.
	OtherCPUSeconds  float64 `json:"otherCPUSeconds,omitempty"`
	Requests         int     `json:"requests,omitempty"`
	UpstreamRequests int     `json:"upstreamRequests,omitempty"`

	// Deliveries is the number of events of the run's pods at watchers. DeliveriesLeftOut of them
	// were beyond maxDeliveries. Relists counts the LISTs of watchers after their first LIST. Errors counts the
	// errors of nodes and watchers together, since the nodes started.
	Deliveries        int                `json:"deliveries,omitempty"`
	DeliveriesLeftOut int                `json:"deliveriesLeftOut,omitempty"`
	Relists           int                `json:"relists,omitempty"`
	Errors            int64              `json:"errors,omitempty"`
	ErrorKinds        []hollow.ErrorKind `json:"errorKinds,omitempty"`
	// Writes is the number of writes whose time is known. WritesLowered of them were delivered
	// before etcd's watch, or the answer, was read here: their time is the first delivery.
	Writes        int `json:"writes,omitempty"`
	WritesLowered int `json:"writesLowered,omitempty"`

	Verdicts []verdict `json:"objectives,omitempty"`
	Error    string    `json:"error,omitempty"` // not empty: not all steps were measured
}

// quantiles are the quantiles of one step's times, in milliseconds.
type quantiles struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// newQuantiles returns the quantiles of sorted times.
func newQuantiles(sorted []time.Duration) quantiles {
	millis := func(p float64) float64 { return render.Millis(render.Percentile(sorted, p)) }
	return quantiles{len(sorted), millis(50), millis(95), millis(99), millis(100)}
}

// add sets the results of a tracker and of the nodes' report. nodes is nil if the nodes have failed.
func (res *result) add(t *tracker, nodes *hollow.Report, objectives []objective) {
	samples := t.samples()
	res.Steps = map[string]quantiles{}
	for step, sorted := range samples {
		res.Steps[step] = newQuantiles(sorted)
	}
	res.Verdicts = judge(objectives, samples)
	res.Deliveries, res.DeliveriesLeftOut, res.Relists = t.deliveries()
	res.Writes, res.WritesLowered = t.writes()
	if nodes == nil {
		return
	}
	kinds := map[string]int64{}
	for i := range nodes.Rows {
		res.Errors += nodes.Rows[i].Errors
		for _, kind := range nodes.Rows[i].ErrorKinds {
			kinds[kind.Message] += kind.Count
		}
	}
	for what, count := range kinds {
		res.ErrorKinds = append(res.ErrorKinds, hollow.ErrorKind{Message: what, Count: count})
	}
	slices.SortFunc(res.ErrorKinds, func(a, b hollow.ErrorKind) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Message, b.Message))
	})
}

// fail records that not all was measured. No objective is then met.
func (res *result) fail(err error) {
	res.Error = err.Error()
	for i := range res.Verdicts {
		res.Verdicts[i].Met = false
	}
}

// cost returns the cost of a part, or nil if it was not measured.
func (res *result) cost(part string) *cost {
	for i := range res.Costs {
		if res.Costs[i].Part == part {
			return &res.Costs[i]
		}
	}
	return nil
}

// pathTitle returns the path in words.
func (res *result) pathTitle() string { return pathTitle(res.Path, res.Upstream) }

// pathTitle returns a path in words. upstream is the read path of a replica's upstream.
func pathTitle(path, upstream string) string {
	switch path {
	case testbed.ReadPathMillrace:
		return "millrace serve"
	case testbed.ReadPathKubernetes:
		return "stock read path"
	case pathReplicaAPI:
		return "replica of " + pathTitle(upstream, "")
	case pathReplicaEtcd:
		return "replica of " + pathTitle(upstream, "") + ", fed by etcd"
	}
	return path
}

// Write implements testbed.Report. It also writes the page of --report. It returns an error if an
// objective was missed.
func (r *report) Write(out io.Writer, format string) error {
	if err := render.WriteWithPlot(out, format, r, r.text, r.plot); err != nil {
		return err
	}
	if r.page != "" {
		if err := r.writePage(r.page); err != nil {
			return err
		}
	}
	if missed := r.missedObjectives(); len(missed) > 0 {
		return errors.New("objectives were missed: " + strings.Join(missed, "; "))
	}
	return nil
}

// missedObjectives returns the objectives that were not met, with their paths.
func (r *report) missedObjectives() (all []string) {
	for i := range r.Results {
		res := &r.Results[i]
		for _, v := range res.Verdicts {
			if !v.Met {
				all = append(all, fmt.Sprintf("%s: %s", res.pathTitle(), v.objective))
			}
		}
	}
	return all
}

// FailureCount implements testbed.Report.
func (r *report) FailureCount() (n int) {
	for i := range r.Results {
		if r.Results[i].Error != "" {
			n++
		}
	}
	return n
}
