package provision

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
)

// row is one figure of all paths.
type row struct {
	title  string
	figure func(*result) float64 // returns NaN if it was not measured
	format func(float64) string
}

// nanIfZero returns NaN for 0, for a figure that is never 0 if it was measured.
func nanIfZero(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// milliseconds formats a time in milliseconds. It returns "-" for NaN.
func milliseconds(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v < 999.5:
		return render.FormatNumber(v) + " ms"
	}
	return render.FormatNumber(v/1000) + " s"
}

// seconds formats a time in seconds.
func seconds(v float64) string { return milliseconds(1000 * v) }

// percentile is a percentile that is shown.
type percentile struct {
	name   string
	figure func(quantiles) float64
}

// percentiles returns the percentiles that are shown.
func percentiles() []percentile {
	return []percentile{
		{"p50", func(q quantiles) float64 { return q.P50 }}, {"p95", func(q quantiles) float64 { return q.P95 }},
		{"p99", func(q quantiles) float64 { return q.P99 }},
	}
}

// figureOf returns the figure of a step's percentile, in milliseconds.
func (p percentile) figureOf(step string) func(*result) float64 {
	return func(res *result) float64 {
		if q, ok := res.Steps[step]; ok {
			return p.figure(q)
		}
		return math.NaN()
	}
}

// stepRows returns the rows of all steps' percentiles.
func stepRows() (rows []row) {
	for _, s := range steps() {
		for _, p := range percentiles() {
			rows = append(rows, row{s.title + ", " + p.name, p.figureOf(s.name), milliseconds})
		}
	}
	return append(rows, row{"until all pods run and every watcher knows",
		func(res *result) float64 { return nanIfZero(res.Seconds) }, seconds})
}

// unlessFailed returns v, or NaN if the path has failed.
func (res *result) unlessFailed(v float64) float64 {
	if res.Error != "" {
		return math.NaN()
	}
	return v
}

// costRows returns the rows of costs.
func costRows() []row {
	ofPart := func(part string, figure func(*cost) float64) func(*result) float64 {
		return func(res *result) float64 {
			if c := res.cost(part); c != nil {
				return figure(c)
			}
			return math.NaN()
		}
	}
	cpu := func(c *cost) float64 { return c.CPUSeconds }
	peak := func(c *cost) float64 { return float64(c.PeakBytes) }
	sent := func(c *cost) float64 { return nanIfZero(float64(c.SentBytes)) }
	return []row{
		{"server: CPU", ofPart(partServer, cpu), seconds},
		{"server: peak memory", ofPart(partServer, peak), render.FormatByteCount},
		{"server: sent", ofPart(partServer, sent), render.FormatByteCount},
		{"server: requests", func(res *result) float64 { return nanIfZero(float64(res.Requests)) }, render.FormatCount},
		{"replica's upstream: CPU", ofPart(partUpstream, cpu), seconds},
		{"replica's upstream: peak memory", ofPart(partUpstream, peak), render.FormatByteCount},
		{"replica's upstream: sent", ofPart(partUpstream, sent), render.FormatByteCount},
		{"replica's upstream: requests", func(res *result) float64 { return nanIfZero(float64(res.UpstreamRequests)) }, render.FormatCount},
		{"etcd: CPU", ofPart(partEtcd, cpu), seconds},
		{"scheduler: CPU", ofPart(testbed.Scheduler, cpu), seconds},
		{"controller manager: CPU", ofPart(testbed.ControllerManager, cpu), seconds},
		{"nodes and watchers: CPU", func(res *result) float64 { return nanIfZero(res.ClientCPUSeconds) }, seconds},
		{"other programs: CPU", func(res *result) float64 { return res.unlessFailed(res.OtherCPUSeconds) }, seconds},
		{"events at watchers", func(res *result) float64 { return nanIfZero(float64(res.Deliveries)) }, render.FormatCount},
		{"writes timed by a delivery", func(res *result) float64 {
			if res.Writes == 0 {
				return math.NaN()
			}
			return float64(res.WritesLowered)
		}, render.FormatCount},
		{"relists of watchers", func(res *result) float64 { return res.unlessFailed(float64(res.Relists)) }, render.FormatCount},
		{"errors of nodes and watchers", func(res *result) float64 { return res.unlessFailed(float64(res.Errors)) }, render.FormatCount},
	}
}

// text returns the report in a format of tables.
func (r *report) text(format string) string {
	return render.Document(format, nil, r.tables(), r.notes())
}

// tables returns the tables of times and of costs.
func (r *report) tables() []render.TitledTable {
	return []render.TitledTable{
		{Title: "From creation to running", Table: r.table("time", stepRows())},
		{Title: "What it cost", Table: r.table("cost", costRows())},
	}
}

// table returns a table with a column for each path, and its ratio to the first path. It leaves out rows
// without a value. title is the title of the first column.
func (r *report) table(title string, rows []row) render.Table {
	t := render.Table{Columns: []render.Column{{Title: title}}}
	groups := r.groups()
	for i, g := range groups {
		t.Columns = append(t.Columns, render.Column{Group: g.title})
		if i > 0 {
			t.Columns = append(t.Columns, render.Column{Group: g.title, Title: "ratio"})
		}
	}
	for _, line := range rows {
		if cells := line.cells(groups); cells != nil {
			t.Add(cells...)
		}
	}
	return t
}

// cells returns the cells of a row, or nil if no path has a value.
func (line row) cells(groups []*pathGroup) []string {
	cells := []string{line.title}
	measured := 0
	for i, g := range groups {
		v := g.median(line.figure)
		cell := "-"
		if !math.IsNaN(v) {
			cell = line.format(v)
			measured++
		}
		cells = append(cells, cell)
		if i > 0 {
			cells = append(cells, ratio(v, groups[0].median(line.figure)))
		}
	}
	if measured == 0 {
		return nil
	}
	return cells
}

// ratio formats a/b. It returns "-" if either is NaN.
func ratio(a, b float64) string {
	if math.IsNaN(a) || math.IsNaN(b) {
		return "-"
	}
	return render.FormatRatio(a, b)
}

// plot returns a plot of the percentiles of provisioning and of deliveries.
func (r *report) plot() render.Plot {
	p := render.Plot{Title: fmt.Sprintf("%d pods on %d nodes: from creation to running, and the delivery of an event, in s", r.Plan.Pods,
		r.Plan.Nodes), Format: seconds}
	for i, g := range r.groups() {
		series := render.Series{Name: g.title, Values: map[string]float64{}}
		for _, bars := range []struct{ step, title string }{{stepProvision, "running"}, {stepWatch, "watch"}} {
			for _, q := range percentiles() {
				group := bars.title + " " + q.name
				if i == 0 {
					p.Groups = append(p.Groups, group)
				}
				if v := g.median(q.figureOf(bars.step)); v > 0 {
					series.Values[group] = v / 1000
				}
			}
		}
		p.Series = append(p.Series, series)
	}
	return p
}

// notes returns lines about the objectives, the load, the machine and the failures.
func (r *report) notes() (lines []string) {
	for i := range r.Results {
		for _, v := range r.Results[i].Verdicts {
			lines = append(lines, v.line(r.Results[i].pathTitle()))
		}
	}
	p := &r.Plan
	made := "as pods"
	if p.PodsOf == podsOfDeployments {
		made = fmt.Sprintf("of Deployments of %d", p.PodsPerDeployment)
	}
	pace := "all at once"
	if p.Rate > 0 {
		pace = render.FormatNumber(p.Rate) + " per second"
	}
	agents := "no agents"
	if len(p.Agents) > 0 {
		agents = "the agents " + strings.Join(p.Agents, ", ")
	}
	lines = append(lines,
		fmt.Sprintf("%d pods %s, %s, on %d hollow nodes with kubelet, kube-proxy and %s; %d watchers of all pods; containers take %s to start",
			p.Pods, made, pace, p.Nodes, agents, p.Watchers, p.PodStart),
		fmt.Sprintf("scheduler and controller manager may send %d requests per second each, nodes and watchers any number", p.ComponentQPS),
		fmt.Sprintf("%s, %s, load average %s before", r.Machine, r.Started.UTC().Format(time.RFC3339), r.LoadAverage))
	if p.Turns > 1 {
		lines = append(lines, fmt.Sprintf("each figure is the median of %d turns", p.Turns))
	}
	return append(lines, r.failureNotes()...)
}

// shownErrors bounds the kinds of errors below the table.
const shownErrors = 4

// failureNotes returns lines about errors, and about figures that are incomplete.
func (r *report) failureNotes() (lines []string) {
	for i := range r.Results {
		res := &r.Results[i]
		for n, kind := range res.ErrorKinds {
			if n == shownErrors {
				lines = append(lines, fmt.Sprintf("%s: further errors: -o json has all", res.pathTitle()))
				break
			}
			lines = append(lines, fmt.Sprintf("%s: %d × %s", res.pathTitle(), kind.Count, display.Clean(kind.Message)))
		}
		if res.PeaksSinceStart {
			lines = append(lines, res.pathTitle()+": peaks of memory count from the start of the processes, because the "+
				"kernel did not permit to reset them")
		}
		if res.DeliveriesLeftOut > 0 {
			lines = append(lines, fmt.Sprintf("%s: the times of %d events at watchers were not kept, because there were more than %d",
				res.pathTitle(), res.DeliveriesLeftOut, maxDeliveries))
		}
		if res.Error != "" {
			lines = append(lines, fmt.Sprintf("failed: %s: %s", res.pathTitle(), res.Error))
		}
	}
	return lines
}
