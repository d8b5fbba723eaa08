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

// run measures all paths, one after the other, as often as the plan has turns. A failure is part of
// the report, unless ctx has ended, or nothing was measured of a cluster that exists.
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

// measure measures one path, with files in the subdirectory dir. It removes what it has made in a
// cluster that exists, also after --timeout, but not if parent has ended.
func (b *bench) measure(parent context.Context, res *result, dir string) (err error) {
	ctx, cancel := context.WithTimeoutCause(parent, b.opts.Timeout, fmt.Errorf("not done within --timeout=%s", b.opts.Timeout))
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
			s.endComponents(parent)
			err = errors.Join(err, b.cleanCluster(parent, w))
		}()
	}
	if err := w.prepare(ctx); err != nil {
		return err
	}
	m := &measurement{bench: b, setup: s, workload: w, result: res}
	return s.explainExit(ctx, m.run(ctx))
}

// cleanTimeout bounds the removal of what a run has made. It also starts after --timeout.
const cleanTimeout = 10 * time.Minute

// cleanCluster removes what a path has made in a cluster that exists. It does nothing if ctx has ended:
// run then shows the user what to do.
func (b *bench) cleanCluster(ctx context.Context, w *workload) error {
	if ctx.Err() != nil {
		return nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, cleanTimeout, fmt.Errorf("not done within %s", cleanTimeout))
	defer cancel()
	b.progress.Phase("removing what the run has made")
	if err := w.clean(limited); err != nil && ctx.Err() == nil {
		return fmt.Errorf("remove what the run has made: %w: --delete removes the rest", err)
	}
	return nil
}

// Remove removes the objects that runs of a name have left in a cluster.
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

// clean does what Remove does, for --delete.
func (b *bench) clean(ctx context.Context) error {
	if err := Remove(ctx, &b.opts.server, b.opts.Name); err != nil {
		return err
	}
	b.progress.Phase("removed what the run %q has left", b.opts.Name)
	return nil
}

// measurement measures one path.
type measurement struct {
	*bench
	setup    *setup
	workload *workload
	result   *result
	tracker  *tracker
}

// run starts nodes and watchers, makes the pods, and waits until all run. It adds what it has measured
// to the result, also after an error. Everything that it has started has ended when it returns.
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
		if err := m.awaitReady(ctx, clockReady); err != nil {
			return err
		}
		return m.provision(ctx)
	})
	err := group.Wait()
	m.result.add(m.tracker, nodes, o.objectives)
	return err
}

const (
	// pollInterval is the time between two readings of the tracker.
	pollInterval = 20 * time.Millisecond
	// progressInterval is the time between two lines of progress.
	progressInterval = 5 * time.Second
)

// awaitReady waits until the clock follows etcd, all nodes are ready, all watchers have all pods and a
// first pod runs. Then it lets the server come to rest.
func (m *measurement) awaitReady(ctx context.Context, clockReady <-chan struct{}) error {
	m.progress.Phase("starting %d nodes and %d watchers", m.opts.Nodes, m.opts.Watchers)
	for _, ready := range []<-chan struct{}{clockReady, m.tracker.started} {
		select {
		case <-ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for m.tracker.syncedWatchers() < m.opts.Watchers {
		if err := testbed.Sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
	if err := m.awaitFirstPod(ctx); err != nil {
		return err
	}
	return m.setup.awaitIdle(ctx, m.bench)
}

// awaitFirstPod creates one pod, or a Deployment of one, and waits until it runs. Scheduler and
// controllers then work when the measurement starts. If one is missing, the user learns it early.
func (m *measurement) awaitFirstPod(ctx context.Context) error {
	late := fmt.Errorf("the first pod does not run within --ready-timeout=%s: does a scheduler run, and for Deployments a "+
		"controller manager?", m.opts.ReadyTimeout)
	if m.setup.front == nil && !m.opts.ownComponents {
		late = fmt.Errorf("%w --own-components starts both", late)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.opts.ReadyTimeout, late)
	defer cancel()
	if err := m.workload.createFirst(ctx); err != nil {
		return err
	}
	for !m.tracker.firstRuns.Load() {
		if err := testbed.Sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
	return nil
}

// provision creates the pods, waits until all run, and sets the costs in the result.
func (m *measurement) provision(ctx context.Context) error {
	m.progress.Phase("creating %d pods", m.opts.Pods)
	m.result.PeaksSinceStart = !m.setup.resetPeaks()
	m.tracker.measuring.Store(true)
	before, err := m.setup.takeSample(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := m.setup.tracePeak(func() error { return m.createAndAwait(ctx) }); err != nil {
		return err
	}
	m.result.Seconds = time.Since(start).Seconds()
	after, err := m.setup.takeSample(ctx)
	if err != nil {
		return err
	}
	m.setup.setCosts(before, after, m.result)
	return nil
}

// createAndAwait creates the pods, and returns when all pods run and every watcher has received the
// events. It shows progress.
func (m *measurement) createAndAwait(ctx context.Context) error {
	if err := m.workload.create(ctx); err != nil {
		return err
	}
	lastShown := time.Now()
	for !m.tracker.done() {
		if err := testbed.Sleep(ctx, pollInterval); err != nil {
			created, bound, ready := m.tracker.countPods()
			return fmt.Errorf("of %d pods %d were created, %d bound and %d running: %w", m.opts.Pods, created, bound, ready, err)
		}
		if time.Since(lastShown) >= progressInterval {
			lastShown = time.Now()
			created, bound, ready := m.tracker.countPods()
			m.progress.Phase("  %d created, %d bound, %d running", created, bound, ready)
		}
	}
	return nil
}
