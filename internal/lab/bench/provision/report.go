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
	// LoadAverage is that of the minute before.
	LoadAverage string   `json:"loadAverage,omitempty"`
	Plan        plan     `json:"plan"`
	Results     []result `json:"results"`

	page string // the file of --report
}

// result is one path.
type result struct {
	Path     string `json:"path"`
	Server   string `json:"server,omitempty"`   // version
	Upstream string `json:"upstream,omitempty"` // the read path behind a replica
	// Seconds is from the first creation until all pods run and every watcher knows.
	Seconds float64 `json:"seconds,omitempty"`
	// Steps are the times of each step, by its name.
	Steps map[string]quantiles `json:"steps,omitempty"`

	Costs []cost `json:"costs,omitempty"`
	// PeaksSinceStart says that the kernel did not let peaks of memory be set back: they are
	// those since the processes began.
	PeaksSinceStart  bool    `json:"peaksSinceStart,omitempty"`
	ClientCPUSeconds float64 `json:"clientCPUSeconds,omitempty"` // hollow nodes and watchers
	// OtherCPUSeconds is what the machine has worked for programs that are not part of this.
	OtherCPUSeconds  float64 `json:"otherCPUSeconds,omitempty"`
	Requests         int     `json:"requests,omitempty"`
	UpstreamRequests int     `json:"upstreamRequests,omitempty"`

	// Deliveries are events of the run's pods at watchers, and DeliveriesLeftOut those beyond
	// the bound on what is kept. Relists are those of watchers. Errors are those of nodes
	// and watchers together, since the nodes began to start.
	Deliveries        int                `json:"deliveries,omitempty"`
	DeliveriesLeftOut int                `json:"deliveriesLeftOut,omitempty"`
	Relists           int                `json:"relists,omitempty"`
	Errors            int64              `json:"errors,omitempty"`
	ErrorKinds        []hollow.ErrorKind `json:"errorKinds,omitempty"`
	// Writes are those whose time is known. WritesLowered of them were delivered before etcd's
	// watch, or the answer, was read here: they count from their first delivery.
	Writes        int `json:"writes,omitempty"`
	WritesLowered int `json:"writesLowered,omitempty"`

	Verdicts []verdict `json:"objectives,omitempty"`
	Error    string    `json:"error,omitempty"` // not empty: not all of it was measured
}

// quantiles are those of one step's times, in milliseconds.
type quantiles struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

func quantilesOf(sorted []time.Duration) quantiles {
	at := func(p float64) float64 { return render.Millis(render.Percentile(sorted, p)) }
	return quantiles{len(sorted), at(50), at(95), at(99), at(100)}
}

// add takes what was seen. nodes is nil if the nodes have failed.
func (res *result) add(t *tracker, nodes *hollow.Report, objectives []objective) {
	samples := t.samples()
	res.Steps = map[string]quantiles{}
	for step, sorted := range samples {
		res.Steps[step] = quantilesOf(sorted)
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
			kinds[kind.What] += kind.Count
		}
	}
	for what, count := range kinds {
		res.ErrorKinds = append(res.ErrorKinds, hollow.ErrorKind{What: what, Count: count})
	}
	slices.SortFunc(res.ErrorKinds, func(a, b hollow.ErrorKind) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What))
	})
}

// fail notes that not all was measured. Of what was not measured, nothing is met.
func (res *result) fail(err error) {
	res.Error = err.Error()
	for i := range res.Verdicts {
		res.Verdicts[i].Met = false
	}
}

// cost returns what a part has used, or nil.
func (res *result) cost(part string) *cost {
	for i := range res.Costs {
		if res.Costs[i].Part == part {
			return &res.Costs[i]
		}
	}
	return nil
}

// title names the path for people.
func (res *result) title() string { return titleOf(res.Path, res.Upstream) }

func titleOf(path, upstream string) string {
	switch path {
	case testbed.ReadPathMillrace:
		return "millrace serve"
	case testbed.ReadPathKubernetes:
		return "stock read path"
	case pathReplicaAPI:
		return "replica of " + titleOf(upstream, "")
	case pathReplicaEtcd:
		return "replica of " + titleOf(upstream, "") + ", fed by etcd"
	}
	return path
}

// Write prints the report in one of the formats of --output, and writes the page if one was
// asked for. It returns an error if an objective was missed.
func (r *report) Write(out io.Writer, format string) error {
	if err := render.WriteWithPlot(out, format, r, r.text, r.plot); err != nil {
		return err
	}
	if r.page != "" {
		if err := r.writePage(r.page); err != nil {
			return err
		}
	}
	if missed := r.missed(); len(missed) > 0 {
		return errors.New("objectives were missed: " + strings.Join(missed, "; "))
	}
	return nil
}

// missed are the objectives that were not met.
func (r *report) missed() (all []string) {
	for i := range r.Results {
		res := &r.Results[i]
		for _, v := range res.Verdicts {
			if !v.Met {
				all = append(all, fmt.Sprintf("%s: %s", res.title(), v.objective))
			}
		}
	}
	return all
}

// Failures implements testbed.Report.
func (r *report) Failures() (n int) {
	for i := range r.Results {
		if r.Results[i].Error != "" {
			n++
		}
	}
	return n
}
