package list

import (
	"context"
	"fmt"
	"os"

	"github.com/millrace/millrace/internal/lab/bench/floor"
	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// comparisonRun is one run on a testbed. Workloads run in one process of a
// server, and each section in another process (see testbed.Testbed for why).
type comparisonRun struct {
	*bench
	*testbed.Testbed
}

// compare runs all measurements on a testbed.
func (b *bench) compare(ctx context.Context) error {
	return testbed.WithTestbed(ctx, testbed.Config{Options: b.opts.Options, Progress: b.progress, HTTP1: b.opts.http1},
		func(bed *testbed.Testbed) error {
			return (&comparisonRun{b, bed}).run(ctx)
		})
}

// run fills in the data, measures one server after the other, and then the floor, which sends the
// bodies of the first server.
func (c *comparisonRun) run(ctx context.Context) error {
	if c.opts.fill.Pods+c.opts.fill.Secrets > 0 {
		if err := c.Fill(ctx, c.opts.fill); err != nil {
			return err
		}
		c.report.Data = &c.opts.fill
	}
	if c.opts.cold {
		return c.measureCold(ctx)
	}
	var sources []floorSource
	for i, readPath := range c.opts.ReadPaths {
		s := serverReport{Name: readPath}
		answered, err := c.measureServer(ctx, &s)
		if err != nil {
			return err
		}
		if i == 0 {
			sources = answered
		}
		c.report.Servers = append(c.report.Servers, s)
	}
	if len(sources) == 0 || !c.opts.floor {
		return nil
	}
	var err error
	c.report.Floor, err = c.measureFloor(ctx, sources)
	return err
}

// measureServer runs the workloads on a fresh server, and each section on another one.
// It returns the workloads that were answered.
func (c *comparisonRun) measureServer(ctx context.Context, s *serverReport) (sources []floorSource, err error) {
	if len(c.opts.chosen.specs) > 0 {
		err = c.onFreshServer(ctx, s, "", func(l *load.Loader) error {
			l.KeepCaptures = c.opts.floor && s.Name == c.opts.ReadPaths[0]
			sources, err = c.measure(ctx, l, s)
			return err
		})
	}
	for _, section := range sections() {
		if err != nil {
			return nil, err
		}
		if c.opts.chosen.sections[section.name] {
			err = c.onFreshServer(ctx, s, section.name, func(l *load.Loader) error { return section.run(c.bench, ctx, l, s) })
		}
	}
	return sources, err
}

// onFreshServer starts a server, measures it and stops it. section is empty for the workloads.
// It sets the version and the start of the server in s.
func (c *comparisonRun) onFreshServer(ctx context.Context, s *serverReport, section string, measure func(*load.Loader) error) error {
	subject, logName := s.Name, "serve-"+s.Name
	if section != "" {
		subject, logName = section+" of "+subject, logName+"-"+section
	}
	c.progress.Phase("measuring %s", subject)
	run, err := c.Start(ctx, s.Name, logName)
	if err != nil {
		return err
	}
	defer c.End(ctx, run)
	if s.StartMillis == 0 {
		s.StartMillis, s.Version = render.Millis(run.Startup), run.Target.Version(ctx)
	}
	if c.opts.cold {
		if err := s.addStart(run); err != nil {
			return err
		}
	}
	l := c.loader(run, s.Name)
	if err := os.MkdirAll(l.CaptureDir, 0o755); err != nil {
		return fmt.Errorf("create work directory: %w", err)
	}
	return c.ExplainExit(ctx, run.Child, measure(l))
}

// measureFloor runs the same workloads on a floor server that sends the captured bodies. A
// workload that fails is part of the results.
func (c *comparisonRun) measureFloor(ctx context.Context, sources []floorSource) ([]load.Result, error) {
	c.progress.Phase("measuring the floor")
	bodies := make([]floor.Body, len(sources))
	for i, source := range sources {
		bodies[i] = source.body
	}
	run, err := floor.Start(ctx, floor.Config{
		Executable: c.Own, Dir: c.CaptureDir(c.opts.ReadPaths[0]), LogFile: c.LogPath("floor.log"), HTTP1: c.opts.http1,
	}, bodies)
	if err != nil {
		return nil, err
	}
	defer run.Stop(ctx)
	l := c.loader(run, "floor")
	if err := os.MkdirAll(l.CaptureDir, 0o755); err != nil {
		return nil, fmt.Errorf("create work directory: %w", err)
	}
	var results []load.Result
	for _, source := range sources {
		res, _, err := l.Run(ctx, source.floorWorkload())
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			c.progress.Phase("failed: %v", err)
			res = load.Result{Workload: source.workload.Name, Error: err.Error()}
		}
		results = append(results, res)
	}
	return results, c.ExplainExit(ctx, run.Child, nil)
}

// loader returns a loader for a server. Responses are stored in the capture directory captures.
func (c *comparisonRun) loader(run *testbed.Server, captures string) *load.Loader {
	return &load.Loader{Target: run.Target, Meter: run.Meter(), Plan: c.opts.plan, CaptureDir: c.CaptureDir(captures), Progress: c.progress}
}
