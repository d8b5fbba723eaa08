package list

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// coldIdleTime is how long a server must have been idle before its first request.
const coldIdleTime = time.Second

// measureCold measures the cold (first) and the warm (second) request of each workload, or,
// with --cold-readers, the first requests that many clients send at once. Servers take turns.
// Each workload has a process of its own on each server.
func (c *comparisonRun) measureCold(ctx context.Context) error {
	c.report.Servers = make([]serverReport, len(c.opts.ReadPaths))
	for i, readPath := range c.opts.ReadPaths {
		c.report.Servers[i].Name = readPath
	}
	measure := c.measureColdAndWarm
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

// measureColdAndWarm measures two requests of a workload on a server that was just started. A
// failure is part of the report. The error is the cause if ctx has ended.
func (c *comparisonRun) measureColdAndWarm(ctx context.Context, l *load.Loader, s *serverReport, spec workloadSpec) error {
	before, err := c.awaitFirstRequest(ctx, l, spec)
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
		c.progress.Phase("failed: %v", err)
		res = load.Result{Workload: w.Name, URI: w.URI, Error: err.Error()}
	}
	s.Results = append(s.Results, res)
	return context.Cause(ctx)
}

// awaitFirstRequest waits before the first request: until the server is idle, or for coldAfter.
// It returns a reading of the server at that time.
func (c *comparisonRun) awaitFirstRequest(ctx context.Context, l *load.Loader, spec workloadSpec) (testbed.Usage, error) {
	if c.opts.coldAfter == 0 {
		return l.Meter.AwaitIdleWithProgress(ctx, c.progress, spec.name, coldIdleTime)
	}
	if err := testbed.Sleep(ctx, c.opts.coldAfter); err != nil {
		return testbed.Usage{}, err
	}
	return l.Meter.Read()
}

// coldTable returns a table of the CPU of the cold (first) and the warm (second) request of
// each workload. The ratio divides a server's cold CPU by that of the first server, the
// baseline. It returns nil if no result was measured.
func (r *report) coldTable() *render.Table {
	if len(r.Servers) == 0 || len(r.Servers[0].Results) == 0 {
		return nil
	}
	baseline := r.Servers[0]
	t := &render.Table{Columns: render.ColumnsOf("workload", "bytes")}
	for i, s := range r.Servers {
		for _, title := range []string{"cold CPU ms", "warm CPU ms", "cold ms", "peak"} {
			t.Columns = append(t.Columns, render.Column{Group: s.Name, Title: title})
		}
		if i > 0 {
			t.Columns = append(t.Columns, render.Column{Group: s.Name, Title: "cold/" + baseline.Name})
		}
	}
	for _, base := range baseline.Results {
		row := []string{base.Workload, render.FormatBytes(base.Bytes)}
		for i, s := range r.Servers {
			cells := slices.Repeat([]string{"-"}, 5)
			if res := load.FindResult(s.Results, base.Workload); res != nil && res.Server != nil {
				cells = []string{render.FormatNumber(res.ColdCPUMillis), render.FormatNumber(res.Server.CPUMillis),
					render.FormatNumber(res.ColdMillis), render.FormatBytes(res.Server.PeakBytes), render.FormatRatio(res.ColdCPUMillis, base.ColdCPUMillis)}
			}
			if i == 0 {
				cells = cells[:4] // the baseline has no ratio
			}
			row = append(row, cells...)
		}
		t.Add(row...)
	}
	return t
}

// coldLine returns the line about the load in the footer of a report of --cold.
func (r *report) coldLine() string {
	if r.ColdReaders > 0 {
		return fmt.Sprintf("%s, each workload on a server that was started for it and has encoded nothing ahead", r.Protocol)
	}
	if r.ColdAfter > 0 {
		return fmt.Sprintf("%s, cold (first) and warm (second) request of a server that was started for them, %s after it "+
			"was ready; peak is during the warm request", r.Protocol, r.ColdAfter)
	}
	return fmt.Sprintf("%s, cold (first) and warm (second) request of a server that was started for them, once it was idle "+
		"for %s; peak is during the warm request", r.Protocol, coldIdleTime)
}
