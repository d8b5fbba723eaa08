package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/hollow"
)

// bench is one run of "bench provision".
type bench struct {
	opts     *options
	progress *testbed.Progress
	report   *report
}

// run measures all paths. A path that fails is part of the report, unless ctx has ended, or
// it is a cluster of which nothing was measured.
func (b *bench) run(ctx context.Context) error {
	b.report.LoadAverage = testbed.LoadAverage()
	for i, path := range slices.Repeat(b.opts.paths(), b.opts.Turns) {
		b.progress.Phase("measuring %s", path)
		res := result{Path: path}
		err := b.measure(ctx, &res, fmt.Sprintf("%02d-%s", i+1, path))
		if ctx.Err() != nil {
			if b.opts.server.Given() {
				b.progress.Phase("interrupted: --delete removes what this run has made")
			}
			return context.Cause(ctx)
		}
		if err != nil && path == pathCluster && len(res.Steps) == 0 {
			return err
		}
		if err != nil {
			b.progress.Phase("failed: %v", err)
			res.fail(err)
		}
		b.report.Results = append(b.report.Results, res)
	}
	return nil
}

// measure measures one path, with files in a directory of its own. A cluster that exists is
// cleaned when it returns, also after --timeout, but not if whole has ended.
func (b *bench) measure(whole context.Context, res *result, dir string) (err error) {
	ctx, cancel := context.WithTimeoutCause(whole, b.opts.Timeout, fmt.Errorf("not done within --timeout=%s", b.opts.Timeout))
	defer cancel()
	s, closeSetup, err := b.open(ctx, res.Path, dir)
	defer closeSetup()
	if err != nil {
		return err
	}
	res.Server = s.target.Version(ctx)
	if s.upstream != nil {
		res.Upstream = b.opts.stock()
	}
	w, err := newWorkload(s.rest(), &b.opts.plan)
	if err != nil {
		return err
	}
	if s.front == nil {
		if err := w.clean(ctx); err != nil { // an earlier run may have been killed
			return err
		}
		defer func() {
			s.endComponents(whole)
			err = errors.Join(err, b.cleanAfter(whole, w))
		}()
	}
	if err := w.prepare(ctx); err != nil {
		return err
	}
	m := &measurement{bench: b, setup: s, workload: w, result: res}
	return s.explainExit(ctx, m.run(ctx))
}

// cleanTimeout bounds the removal of what a run has made, which begins also after --timeout.
const cleanTimeout = 10 * time.Minute

// cleanAfter removes what a path has made in a cluster that exists. Once ctx has ended it does
// nothing: run says what to do.
func (b *bench) cleanAfter(ctx context.Context, w *workload) error {
	if ctx.Err() != nil {
		return nil
	}
	within, cancel := context.WithTimeoutCause(ctx, cleanTimeout, fmt.Errorf("not done within %s", cleanTimeout))
	defer cancel()
	b.progress.Phase("removing what the run has made")
	if err := w.clean(within); err != nil && ctx.Err() == nil {
		return fmt.Errorf("remove what the run has made: %w: --delete removes the rest", err)
	}
	return nil
}

// Remove removes from a cluster what runs of a name have left.
func Remove(ctx context.Context, server *kubeconfig.Flags, name string) error {
	s := &setup{}
	if err := s.reach(server); err != nil {
		return err
	}
	w, err := newWorkload(s.rest(), &plan{Name: name})
	if err != nil {
		return err
	}
	return w.clean(ctx)
}

// clean removes what a run has left in a cluster.
func (b *bench) clean(ctx context.Context) error {
	if err := Remove(ctx, &b.opts.server, b.opts.Name); err != nil {
		return err
	}
	b.progress.Phase("removed what the run %q has left", b.opts.Name)
	return nil
}

// measurement is that of one path.
type measurement struct {
	*bench
	setup    *setup
	workload *workload
	result   *result
	tracker  *tracker
}

// run starts nodes and watchers, makes the pods, and waits until all run. What it has started
// has ended when it returns.
func (m *measurement) run(ctx context.Context) error {
	o := m.opts
	c := newClock(m.setup.front != nil)
	m.tracker = newTracker(o.Name, o.Pods, o.Watchers, c)
	m.workload.clock = c
	// Everything ends with the measurement, and the measurement with the first failure.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	clockReady := make(chan struct{})
	if c.followsEtcd {
		group.Go(func() error {
			return c.follow(ctx, m.setup.bed.EtcdEndpoint(), func() { close(clockReady) })
		})
	} else {
		close(clockReady)
	}
	var nodes *hollow.Report
	group.Go(func() (err error) {
		cfg := o.fleet(m.tracker)
		cfg.REST = m.setup.rest()
		nodes, err = hollow.Run(ctx, cfg)
		return err
	})
	group.Go(func() error {
		defer stop()
		if err := m.awaitNodes(ctx, clockReady); err != nil {
			return err
		}
		return m.provision(ctx)
	})
	err := group.Wait()
	m.result.add(m.tracker, nodes, o.objectives)
	return err
}

const (
	// poll is the time between two looks at the tracker.
	poll = 20 * time.Millisecond
	// progressInterval is the time between two lines of progress.
	progressInterval = 5 * time.Second
)

// awaitNodes waits until all nodes are ready, all watchers have all pods, a first pod runs,
// and the server rests.
func (m *measurement) awaitNodes(ctx context.Context, clockReady <-chan struct{}) error {
	m.progress.Phase("starting %d nodes and %d watchers", m.opts.Nodes, m.opts.Watchers)
	for _, ready := range []<-chan struct{}{clockReady, m.tracker.started} {
		select {
		case <-ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for m.tracker.synced() < m.opts.Watchers {
		if err := testbed.Sleep(ctx, poll); err != nil {
			return err
		}
	}
	if err := m.awaitFirst(ctx); err != nil {
		return err
	}
	return m.setup.awaitRest(ctx, m.bench)
}

// awaitFirst makes one pod and waits until it runs. So scheduler and controllers have begun
// when the measurement does, and their absence is told early.
func (m *measurement) awaitFirst(ctx context.Context) error {
	late := fmt.Errorf("the first pod does not run within --ready-timeout=%s: does a scheduler run, and for Deployments a controller manager?", m.opts.ReadyTimeout)
	if m.setup.front == nil && !m.opts.ownComponents {
		late = fmt.Errorf("%w --own-components starts both", late)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.opts.ReadyTimeout, late)
	defer cancel()
	if err := m.workload.createFirst(ctx); err != nil {
		return err
	}
	for !m.tracker.firstRuns.Load() {
		if err := testbed.Sleep(ctx, poll); err != nil {
			return err
		}
	}
	return nil
}

// provision makes the pods, waits until all run, and notes what that has cost.
func (m *measurement) provision(ctx context.Context) error {
	m.progress.Phase("creating %d pods", m.opts.Pods)
	m.result.PeaksSinceStart = !m.setup.resetPeaks()
	m.tracker.measuring.Store(true)
	before, err := m.setup.read(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := m.setup.tracePeak(func() error { return m.createAndAwait(ctx) }); err != nil {
		return err
	}
	m.result.Seconds = time.Since(start).Seconds()
	after, err := m.setup.read(ctx)
	if err != nil {
		return err
	}
	m.setup.costs(before, after, m.result)
	return nil
}

// createAndAwait makes the pods, and returns when all run and every watcher knows.
func (m *measurement) createAndAwait(ctx context.Context) error {
	if err := m.workload.create(ctx); err != nil {
		return err
	}
	shown := time.Now()
	for !m.tracker.done() {
		if err := testbed.Sleep(ctx, poll); err != nil {
			created, bound, ready := m.tracker.progress()
			return fmt.Errorf("of %d pods %d were created, %d bound and %d running: %w", m.opts.Pods, created, bound, ready, err)
		}
		if time.Since(shown) >= progressInterval {
			shown = time.Now()
			created, bound, ready := m.tracker.progress()
			m.progress.Phase("  %d created, %d bound, %d running", created, bound, ready)
		}
	}
	return nil
}
