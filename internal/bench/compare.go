package bench

import (
	"context"
	"fmt"
	"os"
)

// compareRun is one run of "bench list --compare".
//
// Each server is measured in a process of its own that starts over the filled
// data, and each section in yet another one: so no server carries the garbage
// of filling or of an earlier section in its heap, and starting is measured
// with the same data. It costs a start for each section.
type compareRun struct {
	*listBench
	*testbed
}

func (b *listBench) compare(ctx context.Context, cfg Config) error {
	bed, closeBed, err := openTestbed(ctx, cfg, testbedConfig{testbedOptions: b.opts.testbedOptions, log: b.log, http1: b.opts.http1})
	if err != nil {
		return err
	}
	defer closeBed()
	return (&compareRun{b, bed}).run(ctx)
}

func (c *compareRun) run(ctx context.Context) error {
	if !c.cfg.skipFill {
		if err := c.fill(ctx, c.opts.fill); err != nil {
			return err
		}
		c.report.Data = &c.opts.fill
	}
	var floor []measurable // of the first server
	for i, path := range c.opts.readPaths {
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
func (c *compareRun) measureServer(ctx context.Context, s *serverReport) (done []measurable, err error) {
	if len(c.opts.chosen.specs) > 0 {
		err = c.onFresh(ctx, s, "", func(l *loader) error {
			l.keep = s.Name == c.opts.readPaths[0]
			done, err = c.measure(ctx, l, s)
			return err
		})
	}
	for _, section := range sections() {
		if err != nil {
			return nil, err
		}
		if c.opts.chosen.sections[section.name] {
			err = c.onFresh(ctx, s, section.name, func(l *loader) error { return section.run(c.listBench, ctx, l, s) })
		}
	}
	return done, err
}

// onFresh starts a server, for a section or for the workloads, measures it and
// stops it.
func (c *compareRun) onFresh(ctx context.Context, s *serverReport, section string, measure func(*loader) error) error {
	what, log := s.Name, "serve-"+s.Name
	if section != "" {
		what, log = section+" of "+what, log+"-"+section
	}
	c.log.phase("measuring %s", what)
	run, err := c.start(ctx, s.Name, log)
	if err != nil {
		return err
	}
	defer c.end(ctx, run)
	if s.StartMillis == 0 {
		s.StartMillis, s.Version = millis(run.startup), run.target.version(ctx)
	}
	l := c.loader(run.target, run.pid(), s.Name)
	if err := os.MkdirAll(l.captures, 0o755); err != nil {
		return fmt.Errorf("create work directory: %w", err)
	}
	return c.explain(ctx, run.child, measure(l))
}

// measureFloor runs the same workloads against the captured bodies.
func (c *compareRun) measureFloor(ctx context.Context, done []measurable) ([]result, error) {
	c.log.phase("measuring the floor")
	bodies := make([]floorBody, len(done))
	for i, m := range done {
		bodies[i] = m.capture.floorBody
	}
	run, err := startFloor(ctx, floorRun{
		exe: c.exe, dir: c.captures(c.opts.readPaths[0]), log: c.logs("floor.log"), http1: c.opts.http1,
	}, bodies)
	if err != nil {
		return nil, err
	}
	defer run.stop(ctx)
	l := c.loader(run.target, run.pid(), "floor")
	if err := os.MkdirAll(l.captures, 0o755); err != nil {
		return nil, fmt.Errorf("create work directory: %w", err)
	}
	var results []result
	for _, m := range done {
		res, _, err := l.run(ctx, m.onFloor())
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			c.log.phase("failed: %v", err)
			res = result{Workload: m.workload.name, Error: err.Error()}
		}
		results = append(results, res)
	}
	return results, c.explain(ctx, run.child, nil)
}

func (c *compareRun) loader(t *target, pid int, captures string) *loader {
	return &loader{target: t, meter: newMeter(pid), plan: c.opts.plan, captures: c.captures(captures), log: c.log}
}
