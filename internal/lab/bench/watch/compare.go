package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/floor"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// compare measures events and watch-lists over separate data. Otherwise the secrets of the
// watch-lists would be in the memory of every server.
func (b *bench) compare(ctx context.Context) error {
	for _, readPath := range b.opts.ReadPaths {
		b.report.Servers = append(b.report.Servers, serverReport{Name: readPath})
	}
	chosen := b.opts.chosen
	if len(chosen.events)+len(chosen.floor) > 0 {
		if err := b.onTestbed(ctx, "events", b.compareEvents); err != nil {
			return err
		}
	}
	if len(chosen.informers) == 0 {
		return nil
	}
	return b.onTestbed(ctx, "secrets", b.compareInformers)
}

// onTestbed runs measure on a testbed in a subdirectory of the work directory.
func (b *bench) onTestbed(ctx context.Context, subdirectory string, measure func(context.Context, *testbed.Testbed) error) error {
	return testbed.WithTestbed(ctx, testbed.Config{Options: b.opts.Options, Progress: b.progress, Subdirectory: subdirectory},
		func(bed *testbed.Testbed) error {
			return measure(ctx, bed)
		})
}

// fill fills in data and adds its description to the report.
func (b *bench) fill(ctx context.Context, bed *testbed.Testbed, f testbed.FillConfig) error {
	b.report.Data = append(b.report.Data, f)
	return bed.Fill(ctx, f)
}

// compareEvents runs the event workloads in turns, and adds the medians to the report.
func (b *bench) compareEvents(ctx context.Context, bed *testbed.Testbed) error {
	chosen := b.opts.chosen
	if n := chosen.nodes(); n > 0 {
		if err := b.fill(ctx, bed, testbed.FillConfig{Nodes: n, Pods: n, PodSize: b.opts.podSize, Namespaces: 1}); err != nil {
			return err
		}
	}
	dir := bed.CaptureDir("floor")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create work directory: %w", err)
	}
	turns := make([]turnResults, b.opts.plan.Turns)
	for i := range turns {
		if len(turns) > 1 {
			b.progress.Phase("turn %d of %d", i+1, len(turns))
		}
		var err error
		if turns[i], err = b.takeTurn(ctx, bed, dir, i == 0); err != nil {
			return err
		}
	}
	for i := range b.report.Servers {
		b.report.Servers[i].Results = medians(turns, func(t turnResults) []result { return t.servers[i] })
	}
	b.report.Floor = medians(turns, func(t turnResults) []result { return t.floor })
	return nil
}

// turnResults are the results of one turn, on every server and on the floor.
type turnResults struct {
	servers [][]result // by server and workload
	floor   []result
}

// takeTurn runs the workloads on each server and then on the floor. In the first turn it stores the
// event that the floor sends in dir.
func (b *bench) takeTurn(ctx context.Context, bed *testbed.Testbed, dir string, first bool) (t turnResults, err error) {
	chosen := b.opts.chosen
	t.servers = make([][]result, len(b.report.Servers))
	for i := range t.servers {
		if len(chosen.events) == 0 {
			break
		}
		s := &b.report.Servers[i]
		bed.SetFilled() // runEvents creates config maps
		err := b.onServer(ctx, bed, s, "serve-"+s.Name, func(run *testbed.Server) error {
			return b.runEvents(ctx, run.Target, run.Meter(), s, func(ctx context.Context, r *runner) error {
				var err error
				if first && i == 0 && len(chosen.floor) > 0 && ctx.Err() == nil {
					err = r.saveFloorEvent(ctx, dir)
				}
				if b.opts.At != "" {
					err = errors.Join(err, removeConfigMaps(ctx, r.writer))
				}
				return err
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
		if err := floor.WriteWatchEvent(dir, configMap("all", 0, 1, time.Now())); err != nil {
			return t, err
		}
	}
	err = b.onFloor(ctx, bed, dir, nil, func(run *testbed.Server) (err error) {
		r := &runner{target: run.Target, meter: run.Meter(), plan: b.opts.plan, progress: b.progress}
		t.floor, err = b.runAll(ctx, r, chosen.floor)
		return err
	})
	return t, err
}

// compareInformers runs each workload of informers on a fresh server, and the first workload also on the
// floor, which sends what one informer has received.
func (b *bench) compareInformers(ctx context.Context, bed *testbed.Testbed) error {
	if err := b.fill(ctx, bed, testbed.FillConfig{Secrets: b.opts.secrets, SecretSize: b.opts.secretSize, Namespaces: 1}); err != nil {
		return err
	}
	dir := bed.CaptureDir("floor")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create work directory: %w", err)
	}
	var captured []floor.Body
	for i := range b.report.Servers {
		s := &b.report.Servers[i]
		for _, spec := range b.opts.chosen.informers {
			if spec.firstServerOnly && i > 0 {
				continue
			}
			err := b.onServer(ctx, bed, s, "serve-"+s.Name+"-"+spec.name, func(run *testbed.Server) error {
				r := newInformerRun(run.Target, run.Meter(), informersURI, b.progress)
				res, err := r.measureInformers(ctx, spec, b.opts.plan)
				if err == nil && len(captured) == 0 {
					captured = make([]floor.Body, 1)
					captured[0], err = r.capture(ctx, dir)
				}
				return b.addInformers(ctx, &s.Informers, spec, res, err)
			})
			if err != nil {
				return err
			}
		}
	}
	if len(captured) == 0 || captured[0].Name == "" {
		return nil
	}
	return b.onFloor(ctx, bed, dir, captured, func(run *testbed.Server) error {
		spec := b.opts.chosen.informers[0]
		spec.lists = false // the floor sends the capture, which is a watch-list
		r := newInformerRun(run.Target, run.Meter(), captured[0].URI(), b.progress)
		plan := b.opts.plan
		plan.Rest = 0
		res, err := r.measureInformers(ctx, spec, plan)
		return b.addInformers(ctx, &b.report.FloorInformers, spec, res, err)
	})
}

// onServer starts a server, measures it and stops it. It sets the version and the start of the
// server in s. logName starts with "serve-".
func (b *bench) onServer(ctx context.Context, bed *testbed.Testbed, s *serverReport, logName string, measure func(*testbed.Server) error) error {
	b.progress.Phase("measuring %s", logName[len("serve-"):])
	run, err := bed.Start(ctx, s.Name, logName)
	if err != nil {
		return err
	}
	defer bed.End(ctx, run)
	if s.Version == "" {
		s.StartMillis, s.Version = render.Millis(run.Startup), run.Target.Version(ctx)
	}
	return bed.ExplainExit(ctx, run.Child, measure(run))
}

// onFloor starts a floor server for bodies in dir, measures it and stops it.
func (b *bench) onFloor(ctx context.Context, bed *testbed.Testbed, dir string, bodies []floor.Body, measure func(*testbed.Server) error) error {
	b.progress.Phase("measuring the floor")
	run, err := floor.Start(ctx, floor.Config{Executable: bed.Own, Dir: dir, LogFile: bed.LogPath("floor.log")}, bodies)
	if err != nil {
		return err
	}
	defer run.Stop(ctx)
	return bed.ExplainExit(ctx, run.Child, measure(run))
}
