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
