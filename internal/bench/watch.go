package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

func newWatchCommand(cfg Config) *cobra.Command {
	o := &watchOptions{}
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Measure WATCH",
		Long: `Measures what delivering events to many watchers costs a server, how long
events take from the write to the watcher, and the memory of informers that
begin with a watch-list.

The events come from writes of its own: config maps that it creates in the
namespace default, and status patches of pods that fill has made. A span begins
before the write is sent and so contains the write. "net" is CPU without that of
the same writes without watchers.

By default it measures the server of a kubeconfig, and removes its config maps
afterwards. With --compare it starts this binary with either read path in turn
over one data directory that it fills, and a server whose handlers write the same
event from memory: the floor.

This process and the server have a file open for each connection: ulimit -n must
allow for 1,100 of them, and for more with --scale.`,
		Example: `  millrace bench watch --compare
  millrace bench watch --compare --workloads=all-h2-20,floor-h2-20,gzip --duration=5s
  millrace bench watch --compare --workloads=watchlist --secrets=100 -o json > report.json
  millrace bench watch --workloads=names-1000 --server-pid=1234
  millrace bench watch --from report.json -o markdown`,
	}
	measuring{
		help:     func() (string, bool) { return watchHelp(), slices.Contains(o.workloads, "help") },
		validate: func() error { return o.validate(cmd.Flags().Changed) },
		from:     &o.from, output: &o.output, empty: func() saved { return &watchReport{} },
		measure: func(ctx context.Context, to streams) error { return runWatch(ctx, cfg, o, to) },
	}.by(cmd)
	o.addFlags(cmd.Flags())
	return cmd
}

// watchBench is one run of "bench watch".
type watchBench struct {
	opts   *watchOptions
	log    *progress
	report *watchReport
	pods   []podSample // one of each node; found once
}

// runWatch prints the report also when some workloads failed, and then fails.
func runWatch(ctx context.Context, cfg Config, o *watchOptions, to streams) error {
	b := &watchBench{opts: o, log: newProgress(to.err), report: &watchReport{
		Started: time.Now(), Machine: thisMachine(), Plan: o.plan, ExternalEtcd: o.externalEtcd,
	}}
	var err error
	if o.compare {
		err = b.compare(ctx, cfg)
	} else {
		err = b.single(ctx)
	}
	if err != nil {
		return err
	}
	b.report.noteFailures()
	return conclude(b.report.write(to.out, o.output), len(b.report.failed()))
}

// single measures the server of a kubeconfig.
func (b *watchBench) single(ctx context.Context) error {
	cfg, err := kubeconfigAt(kubeconfigPath(b.opts.kubeconfig, b.opts.dataDir))
	if err != nil {
		return err
	}
	t, err := newTarget(targetConfig{rest: cfg})
	if err != nil {
		return err
	}
	var m *meter
	if b.opts.serverPID > 0 {
		m = newMeter(b.opts.serverPID)
	}
	b.log.phase("measuring %s", t.base)
	s := watchServer{Name: "server", Version: t.version(ctx)}
	for _, spec := range b.opts.chosen.informers {
		res, err := (&informerRun{target: t, meter: m, uri: informersURI, log: b.log}).measure(ctx, spec, b.opts.plan)
		if err := b.addInformers(ctx, &s.Informers, spec, res, err); err != nil {
			return err
		}
	}
	if len(b.opts.chosen.events) > 0 {
		if err := b.events(ctx, t, m, &s, func(ctx context.Context, r *watchRunner) error { return removeConfigMaps(ctx, r.writer) }); err != nil {
			return err
		}
	}
	b.report.Servers = append(b.report.Servers, s)
	return nil
}

// events runs the event workloads on a server, and then what is to be done on
// it at the end.
func (b *watchBench) events(ctx context.Context, t *target, m *meter, s *watchServer, last func(context.Context, *watchRunner) error) error {
	if b.opts.chosen.needs(watchNodes) && b.pods == nil {
		var err error
		if b.pods, err = findPods(ctx, t); err != nil {
			return err
		}
	}
	r, err := newWatchRunner(ctx, t, watchRunner{meter: m, plan: b.opts.plan, log: b.log, pods: b.pods})
	if err != nil {
		return err
	}
	defer r.close()
	s.Results, err = b.runAll(ctx, r, b.opts.chosen.events)
	if ctx.Err() != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptGrace)
		defer cancel()
		return errors.Join(err, last(cleanup, r))
	}
	return errors.Join(err, last(ctx, r))
}

// runAll runs workloads in turn. One that fails is in the results; only what
// ends the run is an error.
func (b *watchBench) runAll(ctx context.Context, r *watchRunner, specs []watchSpec) ([]watchResult, error) {
	var results []watchResult
	for _, s := range specs {
		res, err := r.run(ctx, s)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			b.log.phase("failed: %s: %v", s.name, err)
			res = watchResult{Workload: s.name, Error: err.Error()}
		}
		results = append(results, res)
		if err := sleep(ctx, b.opts.plan.Settle); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// addInformers adds a measurement, or why there is none.
func (b *watchBench) addInformers(ctx context.Context, to *[]informersResult, s informerSpec, res informersResult, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		b.log.phase("failed: %s: %v", s.name, err)
		res = informersResult{Workload: s.name, Informers: s.informers, Error: err.Error()}
	}
	*to = append(*to, res)
	return nil
}
