package servers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// bench is one run of "bench servers".
type bench struct {
	opts     *options
	progress *testbed.Progress
	report   *report
	bed      *testbed.Testbed
}

// workload is a LIST, and how many clients send it at once.
type workload struct {
	name, uri string
	clients   int
	rate      float64 // requests a second; 0: as fast as clients get answers
}

// rateClients is how many requests of a workload with a rate may be in flight.
const rateClients = 50

// workloads are those of Kubernetes clusters whose API servers were measured with
// ApacheBench: no resource version, so the answer has to be consistent.
func (p plan) workloads() []workload {
	all := []workload{{"nodes", "/api/v1/nodes", 20, 0}, {"pods", "/api/v1/pods", 5, 0}}
	for _, rate := range p.Rates {
		all = append(all, workload{"nodes", "/api/v1/nodes", rateClients, rate})
	}
	return all
}

// setup is what clients read at: servers, or replicas in front of one server.
type setup struct {
	path              string
	servers, replicas int
}

func (s setup) String() string {
	if s.replicas > 0 {
		return fmt.Sprintf("%d replicas in front of one server (%s)", s.replicas, s.path)
	}
	return fmt.Sprintf("%d servers (%s)", s.servers, s.path)
}

// setups are in the order of the read paths, or the server of --at alone.
func (o *options) setups() (all []setup) {
	if o.At != "" {
		return []setup{{path: testbed.ReadPathExisting, servers: 1}}
	}
	for _, path := range o.ReadPaths {
		for _, n := range o.servers {
			all = append(all, setup{path: path, servers: n})
		}
		for _, n := range o.replicas {
			all = append(all, setup{path: path, servers: min(1, n), replicas: n})
		}
	}
	return slices.DeleteFunc(all, func(s setup) bool { return s.servers == 0 })
}

// run fills in the objects and measures all setups.
func (b *bench) run(ctx context.Context) error {
	if err := b.bed.Fill(ctx, b.opts.fill); err != nil {
		return err
	}
	for i, s := range b.opts.setups() {
		b.progress.Phase("measuring %s", s)
		within, cancel := context.WithTimeoutCause(ctx, b.opts.plan.Timeout, fmt.Errorf("not done within --timeout=%s", b.opts.plan.Timeout))
		err := b.measure(within, s, fmt.Sprintf("%02d", i+1))
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			b.progress.Phase("failed: %v", err)
			b.report.Results = append(b.report.Results, result{Path: s.path, Servers: s.servers, Replicas: s.replicas, Error: err.Error()})
		}
	}
	return nil
}

// measure starts the processes of a setup and runs all workloads.
func (b *bench) measure(ctx context.Context, s setup, log string) error {
	var all []*testbed.Server
	defer func() {
		for _, p := range slices.Backward(all) {
			b.bed.End(ctx, p)
		}
	}()
	for i := range s.servers {
		start := b.bed.StartAnother
		if i == 0 {
			start = b.bed.Start // the others use its certificates
		}
		one, err := start(ctx, s.path, fmt.Sprintf("%s-%s-%d", log, s.path, i+1))
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	for i := range s.replicas {
		one, err := b.bed.StartReplica(ctx, testbed.ReplicaConfig{Log: fmt.Sprintf("%s-replica-%d", log, i+1), Upstream: all[0], Args: []string{"--follow=nodes,pods"}})
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	m, err := b.newMeasurement(ctx, s, log, all)
	if err != nil {
		return err
	}
	if m.proxy != nil {
		defer b.bed.End(ctx, m.proxy)
	}
	for _, p := range all {
		if _, err := p.Meter().AwaitIdleLogged(ctx, b.progress, s.String(), b.opts.plan.Settle); err != nil {
			return err
		}
	}
	for _, w := range b.opts.plan.workloads() {
		if err := m.run(ctx, w); err != nil {
			for _, p := range all {
				err = b.bed.ExplainExit(ctx, p.Child, err)
			}
			return fmt.Errorf("list %s: %w", w.name, err)
		}
	}
	return nil
}

// measurement is that of one setup.
type measurement struct {
	*bench
	setup            setup
	version          string
	readAt, upstream []*testbed.Server
	proxy            *testbed.Server // nil: clients read at readAt
	etcd             *testbed.Meter
}

// newMeasurement is that of the processes of a setup. It starts the proxy, if there is to be
// one.
func (b *bench) newMeasurement(ctx context.Context, s setup, log string, all []*testbed.Server) (*measurement, error) {
	m := &measurement{bench: b, setup: s, readAt: all, version: all[0].Target.Version(ctx)}
	if b.opts.At == "" {
		m.etcd = testbed.NewMeter(b.bed.EtcdPID())
	}
	if s.replicas > 0 {
		m.upstream, m.readAt = all[:1], all[1:]
	}
	if !b.opts.plan.Proxy {
		return m, nil
	}
	var err error
	m.proxy, err = b.bed.StartProxy(ctx, log+"-proxy", m.readAt...)
	return m, err
}

// target is what client i reads at.
func (m *measurement) target(i int) *testbed.Target {
	if m.proxy != nil {
		return m.proxy.Target
	}
	return m.readAt[i%len(m.readAt)].Target
}

// cpu is the CPU of all processes.
type cpu struct{ readAt, upstream, proxy, etcd, client time.Duration }

func (m *measurement) read() (c cpu, resident int64, err error) {
	readAt, err := testbed.ReadServers(m.readAt)
	if err != nil {
		return c, 0, err
	}
	upstream, err := testbed.ReadServers(m.upstream)
	if err != nil {
		return c, 0, err
	}
	if m.proxy != nil {
		use, err := m.proxy.Meter().Read()
		if err != nil {
			return c, 0, err
		}
		c.proxy = use.CPU
	}
	use, err := m.etcd.ReadIfKnown()
	c.readAt, c.upstream, c.etcd, c.client = readAt.CPU, upstream.CPU, use.CPU, testbed.ClientCPU()
	return c, readAt.RSS, err
}

// run measures one workload.
func (m *measurement) run(ctx context.Context, w workload) error {
	var conns []*testbed.Conn
	defer func() { testbed.CloseAll(conns) }()
	targets := make([]*testbed.Target, w.clients)
	for i := range w.clients {
		targets[i] = m.target(i)
		one, err := targets[i].Connect(ctx, 1)
		if err != nil {
			return err
		}
		conns = append(conns, one...)
	}
	// Each server has answered before.
	if _, err := m.send(ctx, w, client{conns[:min(len(conns), len(m.readAt))], targets}, time.Time{}); err != nil {
		return err
	}
	if err := testbed.Sleep(ctx, m.opts.plan.Settle); err != nil {
		return err
	}
	before, _, err := m.read()
	if err != nil {
		return err
	}
	start := time.Now()
	send := m.send
	if w.rate > 0 {
		send = m.sendAtRate
	}
	sent, err := send(ctx, w, client{conns, targets}, start.Add(m.opts.plan.Duration))
	if err != nil {
		return err
	}
	elapsed := time.Since(start)
	after, resident, err := m.read()
	if err != nil {
		return err
	}
	n := float64(len(sent.times))
	each := func(d time.Duration) float64 { return render.Millis(d) / n }
	m.report.Results = append(m.report.Results, result{
		Path: m.setup.path, Servers: m.setup.servers, Replicas: m.setup.replicas, Workload: w.name, Clients: w.clients, Rate: w.rate, Version: m.version,
		Requests: len(sent.times), RequestsPerSec: n / elapsed.Seconds(), Bytes: sent.bytes / int64(len(sent.times)), Millis: render.Summarize(sent.times),
		CPUMillis: each(after.readAt - before.readAt), UpstreamCPUMillis: each(after.upstream - before.upstream), ProxyCPUMillis: each(after.proxy - before.proxy),
		EtcdCPUMillis: each(after.etcd - before.etcd), ClientCPUMillis: each(after.client - before.client), RSSBytes: resident,
	})
	return nil
}
