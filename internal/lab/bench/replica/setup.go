package replica

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// The setups: where informers read.
const (
	setupDirect      = "direct"       // at the upstream
	setupReplicaAPI  = "replica-api"  // at a replica that is fed by the upstream
	setupReplicaEtcd = "replica-etcd" // at a replica that is fed by etcd
	setupServe       = "serve"        // at "millrace serve", which also takes the writes
)

// setups returns the values of --setups.
func setups() []string {
	return []string{setupDirect, setupReplicaAPI, setupReplicaEtcd, setupServe}
}

// depthPrefix is the prefix of the setups of "bench tree": "depth-2" reads at replicas of replicas.
const depthPrefix = "depth-"

// depthSetup returns the setup in which informers read at a depth.
func depthSetup(depth int) string { return depthPrefix + strconv.Itoa(depth) }

// parseDepth returns the depth at which informers read in a setup of "bench tree", and 0 for other
// setups.
func parseDepth(setup string) int {
	depth, _ := strconv.Atoi(strings.TrimPrefix(setup, depthPrefix)) // an error leaves 0
	return depth
}

// servers are the processes of a setup.
type servers struct {
	bed      *testbed.Testbed
	upstream *testbed.Server
	// tiers are the replicas by depth. Informers read at the last tier, or at the upstream
	// if there are none.
	tiers [][]*testbed.Server
	// own has the counts of the upstream before replicas and informers came.
	own counts
}

// startServers starts the processes of a setup. The caller must call end.
func (b *bench) startServers(ctx context.Context, setup string) (*servers, error) {
	s := &servers{bed: b.bed}
	var err error
	if s.upstream, err = b.bed.Start(ctx, b.opts.readPath(setup), b.logName(setup, "upstream")); err != nil {
		return nil, err
	}
	if b.opts.fanout > 0 {
		if err := s.upstream.UseToken(ctx, namespace, account, b.bed.LogPath(b.logName(setup, "upstream.kubeconfig"))); err != nil {
			s.end(ctx)
			return nil, err
		}
	}
	if err := s.startTiers(ctx, b, setup); err != nil {
		s.end(ctx)
		return nil, err
	}
	return s, nil
}

// startTiers starts the replicas of a setup, and waits until all processes are idle. It sets own.
func (s *servers) startTiers(ctx context.Context, b *bench, setup string) (err error) {
	if _, err := s.upstream.Meter().AwaitIdleWithProgress(ctx, b.progress, setup, b.opts.plan.Settle); err != nil {
		return err
	}
	if s.own, err = scrape(ctx, s.upstream.Target); err != nil {
		return err
	}
	parents := []*testbed.Server{s.upstream}
	for depth, n := range b.opts.tiers(setup) {
		s.tiers = append(s.tiers, nil)
		for i := range n {
			r, err := b.bed.StartReplica(ctx, testbed.ReplicaConfig{
				LogName: b.logName(setup, fmt.Sprintf("replica-%d-%d", depth+1, i+1)), Upstream: parents[i*len(parents)/n],
				Etcd: setup == setupReplicaEtcd, Args: b.opts.tierArgs(setup),
			})
			if err != nil {
				return err
			}
			s.tiers[depth] = append(s.tiers[depth], r)
		}
		parents = s.tiers[depth]
	}
	for r := range s.replicas() {
		if _, err := r.Meter().AwaitIdleWithProgress(ctx, b.progress, setup, b.opts.plan.Settle); err != nil {
			return err
		}
	}
	return nil
}

// replicas returns the replicas of all depths.
func (s *servers) replicas() iter.Seq[*testbed.Server] {
	return func(yield func(*testbed.Server) bool) {
		for _, tier := range s.tiers {
			for _, r := range tier {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// end stops the processes. Each is stopped before its upstream.
func (s *servers) end(ctx context.Context) {
	for _, tier := range slices.Backward(s.tiers) {
		for _, r := range tier {
			s.bed.End(ctx, r)
		}
	}
	s.bed.End(ctx, s.upstream)
}

// targets returns the servers at which informers read.
func (s *servers) targets() (all []*testbed.Target) {
	if len(s.tiers) == 0 {
		return []*testbed.Target{s.upstream.Target}
	}
	for _, r := range s.tiers[len(s.tiers)-1] {
		all = append(all, r.Target)
	}
	return all
}

// explainExit does what testbed.ExplainExit does, for all servers.
func (s *servers) explainExit(ctx context.Context, err error) error {
	for r := range s.replicas() {
		err = s.bed.ExplainExit(ctx, r.Child, err)
	}
	return s.bed.ExplainExit(ctx, s.upstream.Child, err)
}
