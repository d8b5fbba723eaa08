package storm

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/hollow"
)

// bench is one run of "bench storm".
type bench struct {
	opts     *options
	progress *testbed.Progress
	report   *report
	bed      *testbed.Testbed
}

// run fills in the cluster, and measures all servers in turn. A server that fails is part of the
// report, unless ctx has ended.
func (b *bench) run(ctx context.Context) error {
	if err := b.bed.Fill(ctx, b.opts.fill); err != nil {
		return err
	}
	for i, path := range b.opts.ReadPaths {
		m := &measurement{bench: b, path: path, log: fmt.Sprintf("%02d-%s", i+1, path), tracker: newTracker()}
		err := m.run(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			b.progress.Phase("failed: %v", err)
			b.report.Results = append(b.report.Results, result{Path: path, Clients: m.clients, Error: err.Error()})
		}
	}
	return nil
}

// measurement is that of one server.
type measurement struct {
	*bench
	path, log string
	tracker   *tracker
	clients   string // of the storm that is measured
	target    *testbed.Target
	version   string
	server    *testbed.Server // nil: none runs
}

// run measures both storms.
func (m *measurement) run(ctx context.Context) error {
	m.clients = clientsNew
	if err := m.prepare(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	fleet := m.opts.plan.fleet()
	fleet.REST, fleet.Informers = m.target.Config.REST, m.tracker
	group.Go(func() error {
		defer stop()
		err := m.storms(ctx, func() {
			group.Go(func() error {
				_, err := hollow.Run(ctx, fleet)
				return err
			})
		})
		if m.server != nil {
			err = m.bed.ExplainExit(ctx, m.server.Child, err)
			m.server.Kill()
		}
		return err
	})
	return group.Wait()
}

// prepare has a server store what it stores at its first start, and what clients need. So no
// storm has to write more than another one.
func (m *measurement) prepare(ctx context.Context) error {
	m.progress.Phase("%s: a first start", m.path)
	s, err := m.bed.Start(ctx, m.path, m.log)
	if err != nil {
		return err
	}
	defer m.bed.End(ctx, s)
	m.target, m.version = s.Target, s.Target.Version(ctx)
	w, err := testbed.NewWriter(ctx, s.Target)
	if err != nil {
		return err
	}
	defer w.Close()
	const binding = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"bench-storm"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:serviceaccounts"}]}`
	create := func(c *testbed.Conn, uri, body string) error {
		change := testbed.Change{Method: http.MethodPost, URI: uri, ContentType: testbed.AcceptJSON, Body: []byte(body)}
		return m.target.Write(ctx, c, change, http.StatusCreated, http.StatusConflict)
	}
	if err := create(w.Conns[0], "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding); err != nil {
		return err
	}
	return w.Each(ctx, testbed.Turns(m.opts.plan.Nodes), func(_ context.Context, c *testbed.Conn, i int) error {
		return create(c, "/apis/storage.k8s.io/v1/csinodes", fmt.Sprintf(`{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","metadata":{"name":%q},"spec":{"drivers":[]}}`, nodeName(i)))
	})
}

// storms measures the storm of new clients, which begin starts, and that of the same ones when
// they return.
func (m *measurement) storms(ctx context.Context, begin func()) error {
	if err := m.storm(ctx, begin); err != nil {
		return err
	}
	m.clients = clientsReturning
	m.progress.Phase("%s: clients run for %s", m.path, m.opts.plan.Rest)
	if err := testbed.Sleep(ctx, m.opts.plan.Rest); err != nil {
		return err
	}
	m.server.Kill()
	m.server = nil
	killed := time.Now()
	for synced := 1; synced > 0; synced, _ = m.tracker.counts() {
		if err := testbed.Sleep(ctx, poll); err != nil {
			return err
		}
	}
	if err := testbed.Sleep(ctx, time.Until(killed.Add(m.opts.plan.Down))); err != nil {
		return err
	}
	return m.storm(ctx, func() {})
}

const (
	// poll is the time between two looks at the tracker.
	poll = 20 * time.Millisecond
	// hold is how long all informers must stay synced: a watch that the server has taken may
	// still end with an error.
	hold = time.Second
)

// storm starts the server, and measures until all informers are synced.
func (m *measurement) storm(ctx context.Context, begin func()) (err error) {
	m.progress.Phase("%s: the storm of %s clients", m.path, m.clients)
	ctx, cancel := context.WithTimeoutCause(ctx, m.opts.plan.Timeout, fmt.Errorf("not done within --timeout=%s", m.opts.plan.Timeout))
	defer cancel()
	by, err := newBystander(m.target)
	if err != nil {
		return err
	}
	others, err := m.readOthers()
	if err != nil {
		return err
	}
	m.tracker.reset()
	start := time.Now()
	by.begin(ctx, start)
	defer by.stop()
	begin()
	server, err := m.bed.Start(ctx, m.path, m.log)
	if err != nil {
		return err
	}
	m.server = server
	res := result{Path: m.path, Version: m.version, Clients: m.clients, ReadySeconds: server.Startup.Seconds()}
	if err := m.awaitSynced(ctx, func() error { return m.readCosts(&res, others) }); err != nil {
		return err
	}
	m.tracker.add(&res, start)
	res.setGets(by.end())
	m.report.Results = append(m.report.Results, res)
	m.progress.Phase("%s: all %d informers are synced after %.1f s", m.path, res.Informers, res.synced(100))
	return nil
}

// awaitSynced waits until all informers are synced and stay so. note is called when they are.
func (m *measurement) awaitSynced(ctx context.Context, note func() error) error {
	for {
		now := time.Now()
		if m.tracker.allSyncedBy(now) {
			if err := note(); err != nil {
				return err
			}
			if err := testbed.Sleep(ctx, hold); err != nil {
				return err
			}
			if m.tracker.allSyncedBy(now) {
				return nil
			}
		}
		if err := testbed.Sleep(ctx, poll); err != nil {
			synced, all := m.tracker.counts()
			return fmt.Errorf("of %d informers %d were synced: %w", all, synced, err)
		}
	}
}

// otherCPU is what etcd and the clients have used so far, in seconds.
type otherCPU struct{ etcd, clients float64 }

func (m *measurement) readOthers() (otherCPU, error) {
	use, err := testbed.NewMeter(m.bed.EtcdPID()).Read()
	return otherCPU{use.CPU.Seconds(), testbed.ClientCPU().Seconds()}, err
}

// readCosts notes what the server has cost since its start, and the others since before.
func (m *measurement) readCosts(res *result, before otherCPU) error {
	use, err := m.server.Meter().Read()
	if err != nil {
		return err
	}
	others, err := m.readOthers()
	if err != nil {
		return err
	}
	res.CPUSeconds, res.PeakBytes = use.CPU.Seconds(), use.Peak
	res.EtcdCPUSeconds, res.ClientCPUSeconds = others.etcd-before.etcd, others.clients-before.clients
	res.SentBytes, err = m.server.Meter().Written()
	return err
}
