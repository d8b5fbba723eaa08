package bench

import (
	"context"
	"fmt"
	"os"
	"time"
)

// compare measures events and watch-lists over data of their own: the secrets
// of the latter would be in the memory of every server.
func (b *watchBench) compare(ctx context.Context, cfg Config) error {
	for _, path := range b.opts.readPaths {
		b.report.Servers = append(b.report.Servers, watchServer{Name: path})
	}
	chosen := b.opts.chosen
	if len(chosen.events)+len(chosen.floor) > 0 {
		if err := b.onTestbed(ctx, cfg, "events", b.compareEvents); err != nil {
			return err
		}
	}
	if len(chosen.informers) == 0 {
		return nil
	}
	return b.onTestbed(ctx, cfg, "secrets", b.compareInformers)
}

func (b *watchBench) onTestbed(ctx context.Context, cfg Config, part string, measure func(context.Context, *testbed) error) error {
	bed, closeBed, err := openTestbed(ctx, cfg, testbedConfig{testbedOptions: b.opts.testbedOptions, log: b.log, part: part})
	if err != nil {
		return err
	}
	defer closeBed()
	return measure(ctx, bed)
}

// fill puts data in, and into the report.
func (b *watchBench) fill(ctx context.Context, bed *testbed, f fillConfig) error {
	if bed.cfg.skipFill {
		return nil
	}
	b.report.Data = append(b.report.Data, f)
	return bed.fill(ctx, f)
}

func (b *watchBench) compareEvents(ctx context.Context, bed *testbed) error {
	chosen := b.opts.chosen
	if n := chosen.nodes(); n > 0 {
		if err := b.fill(ctx, bed, fillConfig{Nodes: n, Pods: n, PodSize: "4KB", Namespaces: 1}); err != nil {
			return err
		}
	}
	dir := bed.captures("floor")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create work directory: %w", err)
	}
	turns := make([]eventTurn, b.opts.plan.Turns)
	for i := range turns {
		if len(turns) > 1 {
			b.log.phase("turn %d of %d", i+1, len(turns))
		}
		var err error
		if turns[i], err = b.takeTurn(ctx, bed, dir, i == 0); err != nil {
			return err
		}
	}
	for i := range b.report.Servers {
		b.report.Servers[i].Results = medians(turns, func(t eventTurn) []watchResult { return t.servers[i] })
	}
	b.report.Floor = medians(turns, func(t eventTurn) []watchResult { return t.floor })
	return nil
}

// eventTurn is what one turn of all servers and the floor measured.
type eventTurn struct {
	servers [][]watchResult
	floor   []watchResult
}

// takeTurn runs the workloads on each server, and then on the floor. The first turn
// writes the event that the floor sends to dir.
func (b *watchBench) takeTurn(ctx context.Context, bed *testbed, dir string, first bool) (t eventTurn, err error) {
	chosen := b.opts.chosen
	t.servers = make([][]watchResult, len(b.report.Servers))
	for i := range t.servers {
		if len(chosen.events) == 0 {
			break
		}
		s := &b.report.Servers[i]
		err := b.onServer(ctx, bed, s, "serve-"+s.Name, func(run *server) error {
			return b.events(ctx, run.target, newMeter(run.pid()), s, func(ctx context.Context, r *watchRunner) error {
				if !first || i > 0 || len(chosen.floor) == 0 || ctx.Err() != nil {
					return nil
				}
				return r.sample(ctx, dir)
			})
		})
		if err != nil {
			return t, err
		}
		t.servers[i] = s.Results
	}
	if len(chosen.floor) == 0 {
		return t, nil
	}
	if len(chosen.events) == 0 && first {
		if err := writeEvent(dir, configMap("all", 0, 1, time.Now())); err != nil {
			return t, err
		}
	}
	err = b.onFloor(ctx, bed, dir, nil, func(run *server) (err error) {
		r := &watchRunner{target: run.target, meter: newMeter(run.pid()), plan: b.opts.plan, log: b.log}
		t.floor, err = b.runAll(ctx, r, chosen.floor)
		return err
	})
	return t, err
}

// compareInformers gives each number of informers a fresh server.
func (b *watchBench) compareInformers(ctx context.Context, bed *testbed) error {
	if err := b.fill(ctx, bed, fillConfig{Secrets: b.opts.secrets, SecretSize: b.opts.secretSize, Namespaces: 1}); err != nil {
		return err
	}
	dir := bed.captures("floor")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create work directory: %w", err)
	}
	var captured []floorBody
	for i := range b.report.Servers {
		s := &b.report.Servers[i]
		for _, spec := range b.opts.chosen.informers {
			if spec.single && i > 0 {
				continue
			}
			err := b.onServer(ctx, bed, s, "serve-"+s.Name+"-"+spec.name, func(run *server) error {
				r := &informerRun{target: run.target, meter: newMeter(run.pid()), uri: informersURI, log: b.log}
				res, err := r.measure(ctx, spec, b.opts.plan)
				if err == nil && len(captured) == 0 {
					captured = make([]floorBody, 1)
					captured[0], err = r.capture(ctx, dir)
				}
				return b.addInformers(ctx, &s.Informers, spec, res, err)
			})
			if err != nil {
				return err
			}
		}
	}
	if len(captured) == 0 || captured[0].File == "" {
		return nil
	}
	return b.onFloor(ctx, bed, dir, captured, func(run *server) error {
		spec := b.opts.chosen.informers[0]
		r := &informerRun{target: run.target, meter: newMeter(run.pid()), uri: captured[0].uri(), log: b.log}
		plan := b.opts.plan
		plan.Rest = 0
		res, err := r.measure(ctx, spec, plan)
		return b.addInformers(ctx, &b.report.FloorInformers, spec, res, err)
	})
}

// onServer starts a server, measures it and stops it.
func (b *watchBench) onServer(ctx context.Context, bed *testbed, s *watchServer, log string, measure func(*server) error) error {
	b.log.phase("measuring %s", log[len("serve-"):])
	run, err := bed.start(ctx, s.Name, log)
	if err != nil {
		return err
	}
	defer bed.end(ctx, run)
	if s.Version == "" {
		s.StartMillis, s.Version = millis(run.startup), run.target.version(ctx)
	}
	return bed.explain(ctx, run.child, measure(run))
}

func (b *watchBench) onFloor(ctx context.Context, bed *testbed, dir string, bodies []floorBody, measure func(*server) error) error {
	b.log.phase("measuring the floor")
	run, err := startFloor(ctx, floorRun{exe: bed.exe, dir: dir, log: bed.logs("floor.log")}, bodies)
	if err != nil {
		return err
	}
	defer run.stop(ctx)
	return bed.explain(ctx, run.child, measure(run))
}
