package watch

import (
	"context"
	"errors"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// bench is one run of "bench watch".
type bench struct {
	opts   *options
	log    *testbed.Progress
	report *report
	pods   []testbed.PodSample // one of each node; set when first needed
}

// single measures the server of a kubeconfig.
func (b *bench) single(ctx context.Context) error {
	cfg, err := b.opts.server.Load("bench")
	if err != nil {
		return err
	}
	t, err := testbed.NewTarget(testbed.TargetConfig{REST: cfg})
	if err != nil {
		return err
	}
	var m *testbed.Meter
	if b.opts.serverPID > 0 {
		m = testbed.NewMeter(b.opts.serverPID)
	}
	b.log.Phase("measuring %s", t.BaseURL)
	s := serverReport{Name: "server", Version: t.Version(ctx)}
	for _, spec := range b.opts.chosen.informers {
		res, err := newInformerRun(t, m, informersURI, b.log).measure(ctx, spec, b.opts.plan)
		if err := b.addInformers(ctx, &s.Informers, spec, res, err); err != nil {
			return err
		}
	}
	if len(b.opts.chosen.events) > 0 {
		if err := b.events(ctx, t, m, &s, func(ctx context.Context, r *runner) error { return removeConfigMaps(ctx, r.writer) }); err != nil {
			return err
		}
	}
	b.report.Servers = append(b.report.Servers, s)
	return nil
}

// events runs the event workloads on a server, and last after them. last also runs after
// an interrupt, then with a context that ends soon.
func (b *bench) events(ctx context.Context, t *testbed.Target, m *testbed.Meter, s *serverReport, last func(context.Context, *runner) error) error {
	if b.opts.chosen.needsPods() && b.pods == nil {
		var err error
		if b.pods, err = findPods(ctx, t); err != nil {
			return err
		}
	}
	r, err := newRunner(ctx, t, runner{meter: m, plan: b.opts.plan, log: b.log, pods: b.pods})
	if err != nil {
		return err
	}
	defer r.close()
	s.Results, err = b.runAll(ctx, r, b.opts.chosen.events)
	if ctx.Err() != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), testbed.InterruptGrace)
		defer cancel()
		return errors.Join(err, last(cleanup, r))
	}
	return errors.Join(err, last(ctx, r))
}

// runAll runs workloads one after another. A failed workload is part of the results. An
// error ends the whole run.
func (b *bench) runAll(ctx context.Context, r *runner, specs []eventWorkload) ([]result, error) {
	var results []result
	for _, s := range specs {
		res, err := r.run(ctx, s)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			b.log.Phase("failed: %s: %v", s.name, err)
			res = result{Workload: s.name, Error: err.Error()}
		}
		results = append(results, res)
		if err := testbed.Sleep(ctx, b.opts.plan.Settle); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// addInformers adds a result, or err, with which the measurement failed. It returns the
// cause if ctx has ended.
func (b *bench) addInformers(ctx context.Context, to *[]informersResult, s informerWorkload, res informersResult, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		b.log.Phase("failed: %s: %v", s.name, err)
		res = informersResult{Workload: s.name, Informers: s.informers, Error: err.Error()}
	}
	*to = append(*to, res)
	return nil
}
