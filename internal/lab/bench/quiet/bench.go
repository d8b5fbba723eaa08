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
	frontProxy   = "proxy"              // at a proxy that passes all reads on to the upstream, and does nothing else
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
	fronts   []front         // the first is the upstream; set by run
}

// run starts all servers, measures, and ends them.
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
		b.progress.Phase("reading with %g writes per second", rate)
		if err := b.measure(ctx, &b.report.Results, result{WriteRate: rate}, b.readAlternately); err != nil {
			return err
		}
	}
	if b.opts.plan.Pollers == 0 {
		return nil
	}
	if err := b.measurePolling(ctx, nil); err != nil {
		return err
	}
	for i := range b.fronts {
		if b.fronts[i].name == frontProxy {
			continue // it would cost the upstream what clients at the upstream do
		}
		if err := b.measurePolling(ctx, &b.fronts[i]); err != nil {
			return err
		}
	}
	return nil
}

// measurePolling measures the pollers of a front, or the writes alone if f is nil.
func (b *bench) measurePolling(ctx context.Context, f *front) error {
	res := result{Front: frontNobody, WriteRate: b.opts.plan.PollWriteRate}
	if f != nil {
		res.Front = f.name
		res.Pollers = b.opts.plan.Pollers
	}
	b.progress.Phase("polling: %s", res.Front)
	return b.measure(ctx, &b.report.Polls, res,
		func(ctx context.Context, res result) ([]result, error) { return b.measurePollers(ctx, f, res) })
}

// startReplicas starts the proxy and the replicas, and waits until all fronts are idle. A replica
// that is fed by an API follows the resources that are read and written. A replica that is fed by
// etcd has all resources.
func (b *bench) startReplicas(ctx context.Context, upstream *testbed.Server) error {
	if err := upstream.UseToken(ctx, namespace, account, b.bed.LogPath("upstream.kubeconfig")); err != nil {
		return err
	}
	proxy, err := b.bed.StartProxy(ctx, frontProxy, upstream)
	if err != nil {
		return err
	}
	b.fronts = append(b.fronts, front{frontProxy, proxy})
	follow := []string{"--follow=namespaces,serviceaccounts,configmaps"}
	source := upstream // of the next replica that is fed by an API
	for _, r := range []struct {
		name string
		etcd bool
	}{{frontEtcd, true}, {frontAPI, false}, {frontReplica, false}} {
		b.progress.Phase("starting %s", r.name)
		config := testbed.ReplicaConfig{LogName: r.name, Upstream: source, Etcd: r.etcd}
		if !r.etcd {
			config.Args = follow
		}
		s, err := b.bed.StartReplica(ctx, config)
		if err != nil {
			return err
		}
		b.fronts = append(b.fronts, front{r.name, s})
		if !r.etcd {
			source = s
		}
	}
	for _, f := range b.fronts {
		if _, err := f.server.Meter().AwaitIdleWithProgress(ctx, b.progress, f.name, b.opts.plan.Settle); err != nil {
			return err
		}
	}
	return nil
}

// measure runs do, and adds what it has measured to results. A failure is part of the report,
// unless ctx has ended. res has the fields that do and a failure need.
func (b *bench) measure(ctx context.Context, results *[]result, res result, do func(context.Context, result) ([]result, error)) error {
	limited, cancel := context.WithTimeoutCause(ctx, b.opts.plan.Timeout, fmt.Errorf("not done within --timeout=%s", b.opts.plan.Timeout))
	defer cancel()
	var measured []result
	start := time.Now()
	err := testbed.Sleep(limited, b.opts.plan.Settle)
	if err == nil {
		measured, err = b.measureWhileWriting(limited, res, do)
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

// measureWhileWriting runs do while config maps are written, and sets the rate that was reached in
// the results.
func (b *bench) measureWhileWriting(ctx context.Context, res result, do func(context.Context, result) ([]result, error)) (measured []result, err error) {
	start := time.Now()
	writes, err := b.writer.EmitDuring(ctx, res.WriteRate, func() (err error) {
		measured, err = do(ctx, res)
		return err
	})
	for i := range measured {
		measured[i].WritesPerSec = float64(writes) / time.Since(start).Seconds()
	}
	return measured, err
}
