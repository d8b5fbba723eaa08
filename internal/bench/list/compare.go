package list

import (
	"context"
	"fmt"
	"os"

	"github.com/millrace/millrace/internal/bench/floor"
	"github.com/millrace/millrace/internal/bench/load"
	"github.com/millrace/millrace/internal/bench/render"
	"github.com/millrace/millrace/internal/bench/testbed"
)

// comparisonRun is one run of "bench list --compare".
//
// Each server is measured in a process of its own that starts over the filled
// data, and each section in yet another one: so no server carries the garbage
// of filling or of an earlier section in its heap, and starting is measured
// with the same data. It costs a start for each section.
type comparisonRun struct {
	*bench
	*testbed.Testbed
}

func (b *bench) compare(ctx context.Context, cfg testbed.Program) error {
	bed, closeBed, err := testbed.Open(ctx, cfg, testbed.Config{Options: b.opts.Options, Progress: b.log, HTTP1: b.opts.http1})
	if err != nil {
		return err
	}
	defer closeBed()
	return (&comparisonRun{b, bed}).run(ctx)
}

func (c *comparisonRun) run(ctx context.Context) error {
	if !c.Config.SkipFill {
		if err := c.Fill(ctx, c.opts.fill); err != nil {
			return err
		}
		c.report.Data = &c.opts.fill
	}
	var floor []measurable // of the first server
	for i, path := range c.opts.ReadPaths {
		s := serverReport{Name: path}
		done, err := c.measureServer(ctx, &s)
		if err != nil {
			return err
		}
		if i == 0 {
			floor = done
		}
		c.report.Servers = append(c.report.Servers, s)
	}
	if len(floor) == 0 {
		return nil
	}
	var err error
	c.report.Floor, err = c.measureFloor(ctx, floor)
	return err
}

// measureServer runs the workloads against a fresh server, and each section
// against another one.
func (c *comparisonRun) measureServer(ctx context.Context, s *serverReport) (done []measurable, err error) {
	if len(c.opts.chosen.specs) > 0 {
		err = c.onFresh(ctx, s, "", func(l *load.Loader) error {
			l.Keep = s.Name == c.opts.ReadPaths[0]
			done, err = c.measure(ctx, l, s)
			return err
		})
	}
	for _, section := range sections() {
		if err != nil {
			return nil, err
		}
		if c.opts.chosen.sections[section.name] {
			err = c.onFresh(ctx, s, section.name, func(l *load.Loader) error { return section.run(c.bench, ctx, l, s) })
		}
	}
	return done, err
}

// onFresh starts a server, for a section or for the workloads, measures it and
// stops it.
func (c *comparisonRun) onFresh(ctx context.Context, s *serverReport, section string, measure func(*load.Loader) error) error {
	what, log := s.Name, "serve-"+s.Name
	if section != "" {
		what, log = section+" of "+what, log+"-"+section
	}
	c.log.Phase("measuring %s", what)
	run, err := c.Start(ctx, s.Name, log)
	if err != nil {
		return err
	}
	defer c.End(ctx, run)
	if s.StartMillis == 0 {
		s.StartMillis, s.Version = render.Millis(run.Startup), run.Target.Version(ctx)
	}
	l := c.loader(run.Target, run.PID(), s.Name)
	if err := os.MkdirAll(l.Captures, 0o755); err != nil {
		return fmt.Errorf("create work directory: %w", err)
	}
	return c.ExplainFailure(ctx, run.Child, measure(l))
}

// measureFloor runs the same workloads against the captured bodies.
func (c *comparisonRun) measureFloor(ctx context.Context, done []measurable) ([]load.Result, error) {
	c.log.Phase("measuring the floor")
	bodies := make([]floor.Body, len(done))
	for i, m := range done {
		bodies[i] = m.body()
	}
	run, err := floor.Start(ctx, floor.Config{
		Executable: c.Executable, Dir: c.Captures(c.opts.ReadPaths[0]), LogFile: c.Logs("floor.log"), HTTP1: c.opts.http1,
	}, bodies)
	if err != nil {
		return nil, err
	}
	defer run.Stop(ctx)
	l := c.loader(run.Target, run.PID(), "floor")
	if err := os.MkdirAll(l.Captures, 0o755); err != nil {
		return nil, fmt.Errorf("create work directory: %w", err)
	}
	var results []load.Result
	for _, m := range done {
		res, _, err := l.Run(ctx, m.onFloor())
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			c.log.Phase("failed: %v", err)
			res = load.Result{Workload: m.workload.Name, Error: err.Error()}
		}
		results = append(results, res)
	}
	return results, c.ExplainFailure(ctx, run.Child, nil)
}

func (c *comparisonRun) loader(t *testbed.Target, pid int, captures string) *load.Loader {
	return &load.Loader{Target: t, Meter: testbed.NewMeter(pid), Plan: c.opts.plan, Captures: c.Captures(captures), Log: c.log}
}
