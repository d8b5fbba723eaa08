package quiet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// The fronts: where clients read.
const (
	frontDirect  = "direct"             // at the upstream
	frontAPI     = "replica-api"        // at a replica that is fed by the upstream
	frontEtcd    = "replica-etcd"       // at a replica that is fed by etcd
	frontReplica = "replica-of-replica" // at a replica that is fed by replica-api
)

// front is a server at which clients read.
type front struct {
	name   string
	server *testbed.Server
}

// bench is one run of "bench quiet".
type bench struct {
	opts     *options
	progress *testbed.Progress
	report   *report
	bed      *testbed.Testbed
	writer   *testbed.Writer // at the upstream
	fronts   []front         // the upstream is the first
}

// run starts all servers and measures.
func (b *bench) run(ctx context.Context) error {
	defer func() {
		for _, f := range slices.Backward(b.fronts) {
			b.bed.End(ctx, f.server)
		}
	}()
	upstream, err := b.bed.Start(ctx, b.opts.readPath(), "upstream")
	if err != nil {
		return err
	}
	b.fronts = append(b.fronts, front{frontDirect, upstream})
	b.report.Upstream = b.opts.readPath() + " " + upstream.Target.Version(ctx)
	if b.writer, err = testbed.NewWriter(ctx, upstream.Target); err != nil {
		return err
	}
	defer b.writer.Close()
	b.writer.Change = b.change
	if err := b.createObjects(ctx); err != nil {
		return fmt.Errorf("create objects: %w", err)
	}
	if err := b.startReplicas(ctx, upstream); err != nil {
		return err
	}
	for _, rate := range b.opts.plan.WriteRates {
		b.progress.Phase("reading with %g writes a second", rate)
		if err := b.measure(ctx, &b.report.Results, result{WriteRate: rate}, b.readInTurn); err != nil {
			return err
		}
	}
	if b.opts.plan.Pollers == 0 {
		return nil
	}
	for i := -1; i < len(b.fronts); i++ {
		res, at := result{Front: frontNobody, WriteRate: b.opts.plan.PollWriteRate}, (*front)(nil)
		if i >= 0 {
			at = &b.fronts[i]
			res.Front, res.Pollers = at.name, b.opts.plan.Pollers
		}
		b.progress.Phase("polling: %s", res.Front)
		if err := b.measure(ctx, &b.report.Polls, res, func(ctx context.Context, res result) ([]result, error) { return b.poll(ctx, at, res) }); err != nil {
			return err
		}
	}
	return nil
}

// startReplicas starts the replicas, and waits until they are at rest. Each follows what is
// read and written: the one by etcd has all resources.
func (b *bench) startReplicas(ctx context.Context, upstream *testbed.Server) error {
	if err := upstream.UseToken(ctx, namespace, account, b.bed.Logs("upstream.kubeconfig")); err != nil {
		return err
	}
	follow := []string{"--follow=namespaces,serviceaccounts,configmaps"}
	behind := upstream
	for _, r := range []struct {
		name string
		etcd bool
	}{{frontEtcd, true}, {frontAPI, false}, {frontReplica, false}} {
		b.progress.Phase("starting %s", r.name)
		config := testbed.ReplicaConfig{Log: r.name, Upstream: behind, Etcd: r.etcd}
		if !r.etcd {
			config.Args = follow
		}
		s, err := b.bed.StartReplica(ctx, config)
		if err != nil {
			return err
		}
		b.fronts = append(b.fronts, front{r.name, s})
		if !r.etcd {
			behind = s
		}
	}
	for _, f := range b.fronts {
		if _, err := f.server.Meter().AwaitIdleLogged(ctx, b.progress, f.name, b.opts.plan.Settle); err != nil {
			return err
		}
	}
	return nil
}

// measure adds what do measures to results. A failure is part of the report, unless ctx has
// ended.
func (b *bench) measure(ctx context.Context, results *[]result, res result, do func(context.Context, result) ([]result, error)) error {
	within, cancel := context.WithTimeoutCause(ctx, b.opts.plan.Timeout, fmt.Errorf("not done within --timeout=%s", b.opts.plan.Timeout))
	defer cancel()
	var measured []result
	start := time.Now()
	err := testbed.Sleep(within, b.opts.plan.Settle)
	if err == nil {
		measured, err = b.whileWriting(within, res, do)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, f := range b.fronts {
		err = b.bed.ExplainExit(ctx, f.server.Child, err)
	}
	if err != nil {
		b.progress.Phase("failed after %s: %v", time.Since(start).Round(time.Millisecond), err)
		res.Error = err.Error()
		measured = []result{res}
	}
	*results = append(*results, measured...)
	return nil
}

// whileWriting runs do while config maps are written, and notes the rate that was reached.
func (b *bench) whileWriting(ctx context.Context, res result, do func(context.Context, result) ([]result, error)) (measured []result, err error) {
	start := time.Now()
	made, err := b.writer.EmitDuring(ctx, res.WriteRate, func() (err error) {
		measured, err = do(ctx, res)
		return err
	})
	for i := range measured {
		measured[i].WritesPerSec = float64(made) / time.Since(start).Seconds()
	}
	return measured, err
}
