package watch

import (
	"context"
	"errors"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// bench is one run of "bench watch".
type bench struct {
	opts     *options
	progress *testbed.Progress
	report   *report
	pods     []testbed.PodSample // one pod of each node; nil until a workload needs pods
}

// runEvents runs the event workloads on a server, and then last, also if they failed. After an
// interrupt last runs with a context that ends after InterruptGrace.
func (b *bench) runEvents(ctx context.Context, t *testbed.Target, m *testbed.Meter, s *serverReport, last func(context.Context, *runner) error) error {
	if b.opts.chosen.needsPods() && b.pods == nil {
		var err error
		if b.pods, err = findPods(ctx, t); err != nil {
			return err
		}
	}
	r, err := newRunner(ctx, t, runner{meter: m, plan: b.opts.plan, progress: b.progress, pods: b.pods})
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

// runAll runs workloads one after another. A workload that fails is part of the results. An error
// ends the whole run.
func (b *bench) runAll(ctx context.Context, r *runner, specs []eventWorkload) ([]result, error) {
	var results []result
	for _, s := range specs {
		res, err := r.run(ctx, s)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			b.progress.Phase("failed: %s: %v", s.name, err)
			res = result{Workload: s.name, Error: err.Error()}
		}
		results = append(results, res)
		if err := testbed.Sleep(ctx, b.opts.plan.Settle); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// addInformers adds a result to results, or the error with which its measurement failed. It returns
// the cause if ctx has ended.
func (b *bench) addInformers(ctx context.Context, results *[]informersResult, s informerWorkload, res informersResult, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		b.progress.Phase("failed: %s: %v", s.name, err)
		res = informersResult{Workload: s.name, Informers: s.informers, Error: err.Error()}
	}
	*results = append(*results, res)
	return nil
}
