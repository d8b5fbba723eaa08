package storm

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

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

// run fills in the cluster, and measures one server after the other. A failure is part of the report, unless
// ctx has ended.
func (b *bench) run(ctx context.Context) error {
	if err := b.bed.Fill(ctx, b.opts.fill); err != nil {
		return err
	}
	for i, readPath := range b.opts.ReadPaths {
		m := &measurement{bench: b, readPath: readPath, logName: fmt.Sprintf("%02d-%s", i+1, readPath), tracker: newTracker(clock.RealClock{})}
		err := m.run(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			b.progress.Phase("failed: %v", err)
			b.report.Results = append(b.report.Results, result{ReadPath: readPath, Clients: m.clients, Error: err.Error()})
		}
	}
	return nil
}

// measurement measures one server.
type measurement struct {
	*bench
	readPath, logName string
	tracker           *tracker
	clients           string // clientsNew or clientsReturning: the present storm
	target            *testbed.Target
	version           string
	server            *testbed.Server // nil: no server runs
}

// run measures both storms, while a fleet of hollow nodes runs.
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

// prepare starts a server for the first time, and creates the objects that clients need. Both write
// to etcd, and no storm should have to write more than another one. It sets target and version.
func (m *measurement) prepare(ctx context.Context) error {
	m.progress.Phase("%s: a first start", m.readPath)
	s, err := m.bed.Start(ctx, m.readPath, m.logName)
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
		return create(c, "/apis/storage.k8s.io/v1/csinodes",
			fmt.Sprintf(`{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","metadata":{"name":%q},"spec":{"drivers":[]}}`, nodeName(i)))
	})
}

// storms measures the storm of new clients, which begin starts, and the storm in which the same
// clients return.
func (m *measurement) storms(ctx context.Context, begin func()) error {
	if err := m.storm(ctx, begin); err != nil {
		return err
	}
	m.clients = clientsReturning
	m.progress.Phase("%s: clients run for %s", m.readPath, m.opts.plan.Rest)
	if err := testbed.Sleep(ctx, m.opts.plan.Rest); err != nil {
		return err
	}
	m.server.Kill()
	m.server = nil
	killed := time.Now()
	for m.tracker.watchCount() > 0 {
		if err := testbed.Sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
	if err := testbed.Sleep(ctx, time.Until(killed.Add(m.opts.plan.Down))); err != nil {
		return err
	}
	return m.storm(ctx, func() {})
}

const (
	// pollInterval is the time between two readings of the tracker.
	pollInterval = 20 * time.Millisecond
	// holdTime is how long an informer must have its watch to count as synced. A watch that the
	// server has accepted may still end with an error.
	holdTime = time.Second
)

// storm starts the server, and measures until all informers are synced. begin starts the clients, if
// they do not run already. It adds the result to the report.
func (m *measurement) storm(ctx context.Context, begin func()) (err error) {
	m.progress.Phase("%s: the storm of %s clients", m.readPath, m.clients)
	ctx, cancel := context.WithTimeoutCause(ctx, m.opts.plan.Timeout, fmt.Errorf("not done within --timeout=%s", m.opts.plan.Timeout))
	defer cancel()
	bystander, err := newBystander(m.target)
	if err != nil {
		return err
	}
	others, err := m.readOthers()
	if err != nil {
		return err
	}
	m.tracker.reset()
	start := time.Now()
	bystander.begin(ctx, start)
	defer bystander.stop()
	begin()
	server, err := m.bed.Start(ctx, m.readPath, m.logName)
	if err != nil {
		return err
	}
	m.server = server
	res := result{ReadPath: m.readPath, Version: m.version, Clients: m.clients, ReadySeconds: server.Startup.Seconds()}
	if err := m.awaitSynced(ctx, func() error { return m.readCosts(&res, others) }); err != nil {
		return err
	}
	m.tracker.add(&res, start)
	res.setGets(bystander.end())
	m.report.Results = append(m.report.Results, res)
	m.progress.Phase("%s: all %d informers are synced after %.1f s", m.readPath, res.Informers, res.syncedSeconds(100))
	return nil
}

// awaitSynced waits until all informers are synced, and holdTime longer. It calls onSynced
// each time that all informers are synced.
func (m *measurement) awaitSynced(ctx context.Context, onSynced func() error) error {
	for {
		now := time.Now()
		if m.tracker.allSyncedBy(now) {
			if err := onSynced(); err != nil {
				return err
			}
			if err := testbed.Sleep(ctx, holdTime); err != nil {
				return fmt.Errorf("all informers were synced, and some lost their watches: %w", err)
			}
			if m.tracker.allSyncedBy(now) {
				return nil
			}
		}
		if err := testbed.Sleep(ctx, pollInterval); err != nil {
			synced, all := m.tracker.counts()
			return fmt.Errorf("of %d informers %d were synced: %w", all, synced, err)
		}
	}
}

// otherCPU is the CPU of etcd and of the clients since they started, in seconds.
type otherCPU struct{ etcd, clients float64 }

// readOthers returns the CPU of etcd and of the clients.
func (m *measurement) readOthers() (otherCPU, error) {
	use, err := testbed.NewMeter(m.bed.EtcdPID()).Read()
	return otherCPU{use.CPU.Seconds(), testbed.ClientCPU().Seconds()}, err
}

// readCosts sets the costs in res: of the server since its start, and of etcd and the clients since
// before.
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
	res.SentBytes, err = m.server.Meter().BytesWritten()
	return err
}
