package replica

import (
	"context"

	"github.com/millrace/millrace/internal/bench/testbed"
)

// The setups: where informers read.
const (
	setupDirect      = "direct"       // at the upstream
	setupReplicaAPI  = "replica-api"  // at a replica that is fed by the upstream
	setupReplicaEtcd = "replica-etcd" // at a replica that is fed by etcd
	setupServe       = "serve"        // at "millrace serve", which also takes the writes
)

func setups() []string {
	return []string{setupDirect, setupReplicaAPI, setupReplicaEtcd, setupServe}
}

// servers are the processes of a setup.
type servers struct {
	bed      *testbed.Testbed
	upstream *testbed.Server
	tier     *testbed.Server // nil: informers read at the upstream
	// own is how many watches the upstream has open by itself.
	own counts

	upstreamMeter, tierMeter, etcdMeter *testbed.Meter
}

// startServers starts the processes of a setup. The caller must call end.
func (b *bench) startServers(ctx context.Context, setup string) (*servers, error) {
	s := &servers{bed: b.bed, etcdMeter: testbed.NewMeter(b.bed.EtcdPID())}
	var err error
	if s.upstream, err = b.bed.Start(ctx, b.opts.readPath(setup), b.log(setup, "upstream")); err != nil {
		return nil, err
	}
	s.upstreamMeter = testbed.NewMeter(s.upstream.PID())
	if err := s.startTier(ctx, b, setup); err != nil {
		s.end(ctx)
		return nil, err
	}
	return s, nil
}

// startTier starts the replica of a setup that has one, and waits until all processes are
// at rest.
func (s *servers) startTier(ctx context.Context, b *bench, setup string) (err error) {
	if _, err := s.upstreamMeter.AwaitIdleLogged(ctx, b.progress, setup, b.opts.plan.Settle); err != nil {
		return err
	}
	if s.own, err = scrape(ctx, s.upstream.Target); err != nil {
		return err
	}
	if setup == setupDirect || setup == setupServe {
		return nil
	}
	if s.tier, err = b.bed.StartReplica(ctx, b.log(setup, "replica"), setup == setupReplicaEtcd, b.opts.tierArgs(setup)...); err != nil {
		return err
	}
	s.tierMeter = testbed.NewMeter(s.tier.PID())
	_, err = s.tierMeter.AwaitIdleLogged(ctx, b.progress, setup, b.opts.plan.Settle)
	return err
}

// end stops the processes.
func (s *servers) end(ctx context.Context) {
	if s.tier != nil {
		s.bed.End(ctx, s.tier)
	}
	s.bed.End(ctx, s.upstream)
}

// target is where informers read.
func (s *servers) target() *testbed.Target {
	if s.tier != nil {
		return s.tier.Target
	}
	return s.upstream.Target
}

// explainExit is testbed.ExplainExit for both servers.
func (s *servers) explainExit(ctx context.Context, err error) error {
	if s.tier != nil {
		err = s.bed.ExplainExit(ctx, s.tier.Child, err)
	}
	return s.bed.ExplainExit(ctx, s.upstream.Child, err)
}
