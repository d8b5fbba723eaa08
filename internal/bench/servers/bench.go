package servers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/bench/render"
	"github.com/millrace/millrace/internal/bench/testbed"
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
}

// workloads are those of Kubernetes clusters whose API servers were measured with
// ApacheBench: no resource version, so the answer has to be consistent.
func workloads() []workload {
	return []workload{{"nodes", "/api/v1/nodes", 20}, {"pods", "/api/v1/pods", 5}}
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

// setups are those of Millrace first: its first server makes the certificates that a
// kube-apiserver is given.
func (o *options) setups() (all []setup) {
	for _, path := range []string{testbed.ReadPathMillrace, o.stock()} {
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

// process is a server and its meter.
type process struct {
	*testbed.Server
	meter *testbed.Meter
}

func newProcess(s *testbed.Server) process { return process{s, testbed.NewMeter(s.PID())} }

// measure starts the processes of a setup and runs all workloads.
func (b *bench) measure(ctx context.Context, s setup, log string) error {
	var all []process
	defer func() {
		for _, p := range slices.Backward(all) {
			b.bed.End(ctx, p.Server)
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
		all = append(all, newProcess(one))
	}
	for i := range s.replicas {
		one, err := b.bed.StartReplica(ctx, testbed.ReplicaConfig{Log: fmt.Sprintf("%s-replica-%d", log, i+1), Upstream: all[0].Server, Args: []string{"--follow=nodes,pods"}})
		if err != nil {
			return err
		}
		all = append(all, newProcess(one))
	}
	m := &measurement{bench: b, setup: s, readAt: all, etcd: testbed.NewMeter(b.bed.EtcdPID())}
	if s.replicas > 0 {
		m.upstream, m.readAt = all[:1], all[1:]
	}
	for _, p := range all {
		if _, err := p.meter.AwaitIdleLogged(ctx, b.progress, s.String(), b.opts.plan.Settle); err != nil {
			return err
		}
	}
	for _, w := range workloads() {
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
	readAt, upstream []process
	etcd             *testbed.Meter
}

// cpu is the CPU of all processes.
type cpu struct{ readAt, upstream, etcd, client time.Duration }

func (m *measurement) read() (c cpu, resident int64, err error) {
	for _, p := range m.readAt {
		use, err := p.meter.Read()
		if err != nil {
			return c, 0, err
		}
		c.readAt += use.CPU
		resident += use.RSS
	}
	for _, p := range m.upstream {
		use, err := p.meter.Read()
		if err != nil {
			return c, 0, err
		}
		c.upstream += use.CPU
	}
	use, err := m.etcd.Read()
	c.etcd, c.client = use.CPU, testbed.ClientCPU()
	return c, resident, err
}

// run measures one workload.
func (m *measurement) run(ctx context.Context, w workload) error {
	var conns []*testbed.Conn
	defer func() { testbed.CloseAll(conns) }()
	targets := make([]*testbed.Target, w.clients)
	for i := range w.clients {
		targets[i] = m.readAt[i%len(m.readAt)].Target
		one, err := targets[i].Connect(ctx, 1)
		if err != nil {
			return err
		}
		conns = append(conns, one...)
	}
	// Each server has answered before.
	if _, err := m.send(ctx, w, conns[:min(len(conns), len(m.readAt))], targets, time.Time{}); err != nil {
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
	sent, err := m.send(ctx, w, conns, targets, start.Add(m.opts.plan.Duration))
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
		Path: m.setup.path, Servers: m.setup.servers, Replicas: m.setup.replicas, Workload: w.name, Clients: w.clients,
		Requests: len(sent.times), RequestsPerSec: n / elapsed.Seconds(), Bytes: sent.bytes / int64(len(sent.times)), Millis: render.Summarize(sent.times),
		CPUMillis: each(after.readAt - before.readAt), UpstreamCPUMillis: each(after.upstream - before.upstream),
		EtcdCPUMillis: each(after.etcd - before.etcd), ClientCPUMillis: each(after.client - before.client), RSSBytes: resident,
	})
	return nil
}

// answers are what clients received.
type answers struct {
	times []time.Duration
	bytes int64
}

// send has each client send requests until a time, one at least. The first error ends all.
func (m *measurement) send(ctx context.Context, w workload, conns []*testbed.Conn, targets []*testbed.Target, until time.Time) (all answers, err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	of := make([]answers, len(conns))
	var group sync.WaitGroup
	for i, c := range conns {
		group.Go(func() {
			req, err := targets[i].NewRequest(ctx, testbed.Request{URI: w.uri, Accept: testbed.AcceptJSON})
			for err == nil && (len(of[i].times) == 0 || time.Now().Before(until)) {
				var n int64
				began := time.Now()
				if n, err = c.Fetch(req); err == nil {
					of[i].times = append(of[i].times, time.Since(began))
					of[i].bytes += n
				}
			}
			if err != nil {
				fail(err)
			}
		})
	}
	group.Wait()
	for _, one := range of {
		all.times = append(all.times, one.times...)
		all.bytes += one.bytes
	}
	return all, context.Cause(ctx)
}
