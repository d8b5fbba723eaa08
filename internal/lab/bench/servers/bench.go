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

// workload is a LIST, and the number of clients that send it at once.
type workload struct {
	name, uri string
	clients   int
	rate      float64 // requests per second; 0: as fast as clients get answers
}

// rateClients bounds the requests in flight of a workload with a rate.
const rateClients = 50

// workloads returns the LISTs of published measurements of API servers with ApacheBench, and LISTs
// at the rates of the plan. No LIST has a resource version, so answers must be consistent.
func (p plan) workloads() []workload {
	all := []workload{{"nodes", "/api/v1/nodes", 20, 0}, {"pods", "/api/v1/pods", 5, 0}}
	for _, rate := range p.Rates {
		all = append(all, workload{"nodes", "/api/v1/nodes", rateClients, rate})
	}
	return all
}

// setup is where clients read: at servers, or at replicas of one server.
type setup struct {
	readPath          string // of the servers
	servers, replicas int
}

// String returns the setup in words.
func (s setup) String() string {
	if s.replicas > 0 {
		return fmt.Sprintf("%d replicas of one server (%s)", s.replicas, s.readPath)
	}
	return fmt.Sprintf("%d servers (%s)", s.servers, s.readPath)
}

// setups returns the setups in the order of the read paths, or the server of --at alone.
func (o *options) setups() (all []setup) {
	if o.At != "" {
		return []setup{{readPath: testbed.ReadPathExisting, servers: 1}}
	}
	for _, readPath := range o.ReadPaths {
		for _, n := range o.servers {
			all = append(all, setup{readPath: readPath, servers: n})
		}
		for _, n := range o.replicas {
			all = append(all, setup{readPath: readPath, servers: min(1, n), replicas: n})
		}
	}
	return slices.DeleteFunc(all, func(s setup) bool { return s.servers == 0 })
}

// run fills in the objects and measures all setups. A setup that fails is part of the report,
// unless ctx has ended.
func (b *bench) run(ctx context.Context) error {
	if err := b.bed.Fill(ctx, b.opts.fill); err != nil {
		return err
	}
	for i, s := range b.opts.setups() {
		b.progress.Phase("measuring %s", s)
		limited, cancel := context.WithTimeoutCause(ctx, b.opts.plan.Timeout, fmt.Errorf("not done within --timeout=%s", b.opts.plan.Timeout))
		err := b.measure(limited, s, fmt.Sprintf("%02d", i+1))
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			b.progress.Phase("failed: %v", err)
			b.report.Results = append(b.report.Results, result{ReadPath: s.readPath, Servers: s.servers, Replicas: s.replicas, Error: err.Error()})
		}
	}
	return nil
}

// measure starts the processes of a setup, runs all workloads, and ends the processes. The names of
// logs start with logName.
func (b *bench) measure(ctx context.Context, s setup, logName string) error {
	var all []*testbed.Server
	defer func() {
		for _, p := range slices.Backward(all) {
			b.bed.End(ctx, p)
		}
	}()
	for i := range s.servers {
		start := b.bed.StartAnother
		if i == 0 {
			start = b.bed.Start // the other servers use its certificates
		}
		one, err := start(ctx, s.readPath, fmt.Sprintf("%s-%s-%d", logName, s.readPath, i+1))
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	for i := range s.replicas {
		one, err := b.bed.StartReplica(ctx, testbed.ReplicaConfig{LogName: fmt.Sprintf("%s-replica-%d", logName, i+1), Upstream: all[0],
			Args: []string{"--follow=nodes,pods"}})
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	m, err := b.newMeasurement(ctx, s, logName, all)
	if err != nil {
		return err
	}
	if m.proxy != nil {
		defer b.bed.End(ctx, m.proxy)
	}
	for _, p := range all {
		if _, err := p.Meter().AwaitIdleWithProgress(ctx, b.progress, s.String(), b.opts.plan.Settle); err != nil {
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

// measurement measures one setup.
type measurement struct {
	*bench
	setup            setup
	version          string            // of the first server
	readAt, upstream []*testbed.Server // upstream is empty without replicas
	proxy            *testbed.Server   // nil: clients read at readAt directly
	etcd             *testbed.Meter    // nil: not known
}

// newMeasurement returns a measurement of a setup. all has its processes, servers before replicas.
// With --proxy newMeasurement starts the proxy. The caller must end the proxy.
func (b *bench) newMeasurement(ctx context.Context, s setup, logName string, all []*testbed.Server) (*measurement, error) {
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
	m.proxy, err = b.bed.StartProxy(ctx, logName+"-proxy", m.readAt...)
	return m, err
}

// target returns the server, or the proxy, at which client i reads.
func (m *measurement) target(i int) *testbed.Target {
	if m.proxy != nil {
		return m.proxy.Target
	}
	return m.readAt[i%len(m.readAt)].Target
}

// cpu has the CPU of all processes.
type cpu struct{ readAt, upstream, proxy, etcd, client time.Duration }

// readCPU returns the CPU of all processes since they started, and the memory in bytes of the
// processes at which clients read.
func (m *measurement) readCPU() (c cpu, resident int64, err error) {
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

// run measures one workload, and adds the result to the report.
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
	// The first answer of each server is not measured.
	if _, err := m.send(ctx, w, clients{conns[:min(len(conns), len(m.readAt))], targets}, time.Time{}); err != nil {
		return err
	}
	if err := testbed.Sleep(ctx, m.opts.plan.Settle); err != nil {
		return err
	}
	before, _, err := m.readCPU()
	if err != nil {
		return err
	}
	start := time.Now()
	send := m.send
	if w.rate > 0 {
		send = m.sendAtRate
	}
	sent, err := send(ctx, w, clients{conns, targets}, start.Add(m.opts.plan.Duration))
	if err != nil {
		return err
	}
	elapsed := time.Since(start)
	after, resident, err := m.readCPU()
	if err != nil {
		return err
	}
	n := float64(len(sent.times))
	perRequest := func(d time.Duration) float64 { return render.Millis(d) / n }
	m.report.Results = append(m.report.Results, result{
		ReadPath: m.setup.readPath, Servers: m.setup.servers, Replicas: m.setup.replicas, Workload: w.name, Clients: w.clients,
		Rate: w.rate, Version: m.version,
		Requests: len(sent.times), RequestsPerSec: n / elapsed.Seconds(), Bytes: sent.bytes / int64(len(sent.times)), Millis: render.Summarize(sent.times),
		CPUMillis: perRequest(after.readAt - before.readAt), UpstreamCPUMillis: perRequest(after.upstream - before.upstream),
		ProxyCPUMillis: perRequest(after.proxy - before.proxy),
		EtcdCPUMillis:  perRequest(after.etcd - before.etcd), ClientCPUMillis: perRequest(after.client - before.client), RSSBytes: resident,
	})
	return nil
}
