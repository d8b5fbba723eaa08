package list

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// coldRest is how long a server must have been idle before its first request.
const coldRest = time.Second

// measureCold measures the first and the second request of each workload, or the first ones
// of many clients at once. Servers take turns, each time in a process of their own.
func (c *comparisonRun) measureCold(ctx context.Context) error {
	c.report.Servers = make([]serverReport, len(c.opts.ReadPaths))
	for i, path := range c.opts.ReadPaths {
		c.report.Servers[i].Name = path
	}
	measure := c.measureFirst
	if c.opts.coldReaders > 0 {
		measure = c.measureReaders
	}
	for _, spec := range c.opts.chosen.specs {
		for i := range c.report.Servers {
			s := &c.report.Servers[i]
			err := c.onFreshServer(ctx, s, spec.name, func(l *load.Loader) error { return measure(ctx, l, s, spec) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// measureFirst measures a workload on a server that was just started.
func (c *comparisonRun) measureFirst(ctx context.Context, l *load.Loader, s *serverReport, spec spec) error {
	before, err := c.rest(ctx, l, spec)
	if err != nil {
		return err
	}
	s.IdleBytes = max(s.IdleBytes, before.RSS)
	w, err := c.workloadOf(spec)
	if err != nil {
		return err
	}
	res, _, err := l.Run(ctx, w)
	if err != nil {
		c.log.Phase("failed: %v", err)
		res = load.Result{Workload: w.Name, URI: w.URI, Error: err.Error()}
	}
	s.Results = append(s.Results, res)
	return c.sectionError(ctx, nil)
}

// rest waits until a server that is ready is to get its first request, and returns what it has
// used until then.
func (c *comparisonRun) rest(ctx context.Context, l *load.Loader, spec spec) (testbed.Usage, error) {
	if c.opts.coldAfter == 0 {
		return l.Meter.AwaitIdleLogged(ctx, c.log, spec.name, coldRest)
	}
	if err := testbed.Sleep(ctx, c.opts.coldAfter); err != nil {
		return testbed.Usage{}, err
	}
	return l.Meter.Read()
}

// coldTable has the first and the second request of each workload, nil if neither was
// measured. The ratios are those of the CPU to that of the first server.
func (r *report) coldTable() *render.Table {
	if len(r.Servers[0].Results) == 0 {
		return nil
	}
	t := &render.Table{Columns: render.ColumnsOf("workload", "bytes")}
	for i, s := range r.Servers {
		for _, title := range []string{"first CPU ms", "second CPU ms", "first ms", "peak"} {
			t.Columns = append(t.Columns, render.Column{Group: s.Name, Title: title})
		}
		if i > 0 {
			t.Columns = append(t.Columns, render.Column{Group: s.Name, Title: "first/" + r.Servers[0].Name})
		}
	}
	for _, first := range r.Servers[0].Results {
		row := []string{first.Workload, render.FormatBytes(first.Bytes)}
		for i, s := range r.Servers {
			res := load.FindResult(s.Results, first.Workload)
			if res == nil || res.Server == nil {
				res = &load.Result{Server: &load.ServerCost{}}
			}
			row = append(row, render.FormatNumber(res.ColdCPUMillis), render.FormatNumber(res.Server.CPUMillis),
				render.FormatNumber(res.ColdMillis), render.FormatBytes(res.Server.PeakBytes))
			if i > 0 {
				row = append(row, render.FormatRatio(res.ColdCPUMillis, first.ColdCPUMillis))
			}
		}
		t.Add(row...)
	}
	return t
}

// coldLine describes the load in the footer of a report of --cold.
func (r *report) coldLine() string {
	if r.ColdReaders > 0 {
		return fmt.Sprintf("%s, each workload on a server that was started for it and has encoded nothing ahead", r.Protocol)
	}
	if r.ColdAfter > 0 {
		return fmt.Sprintf("%s, first and second request of a server that was started for them, %s after it was ready; peak is that of the second", r.Protocol, r.ColdAfter)
	}
	return fmt.Sprintf("%s, first and second request of a server that was started for them, once it was idle for %s; peak is that of the second", r.Protocol, coldRest)
}
