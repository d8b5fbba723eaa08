package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/millrace/millrace/internal/apiserver/program"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/serve/peers"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/lifetime"
	"github.com/millrace/millrace/internal/tier/source"
)

const (
	// rebalanceWindow is the time that peers.Rebalancer.Window rounds take.
	rebalanceWindow = 10 * time.Minute
	// sendShare is the part of an interval over which clients are asked to go elsewhere.
	sendShare = 0.8
	// serverLeasePrefix begins the names of the servers' Leases.
	serverLeasePrefix = "millrace-server-"
)

// knowsOthers reports whether this server writes a Lease and reads the Leases of others.
func (s *Server) knowsOthers() bool {
	return s.options.ServerLeases && s.options.CacheCheckInterval > 0
}

// otherServers gives other servers over the same etcd the state of this one, and takes theirs.
type otherServers struct {
	tier *tiermount.ReadTier
	etcd *source.Etcd
	// rebalancer belongs to observe, which one goroutine calls.
	rebalancer peers.Rebalancer
	// excess receives the number of watches to send elsewhere in a round. It holds one round.
	excess chan int
}

// runOtherServers lets servers know each other until serving ends: until this server is told
// to end. It returns at once if that is turned off.
func (s *Server) runOtherServers(ctx, serving context.Context, tier *tiermount.ReadTier, etcd *source.Etcd, server program.Server) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(serving, stop)()
	if !s.knowsOthers() || server.WaitReady(ctx) != nil {
		return
	}
	config := server.Loopback()
	config.UserAgent, config.QPS = "millrace-servers", -1
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		s.logger.Error("Could not make the client for the servers' Leases", "err", err)
		return
	}
	o := &otherServers{tier: tier, etcd: etcd, rebalancer: peers.Rebalancer{Above: s.options.RebalanceAbove, Window: int(rebalanceWindow / s.options.CacheCheckInterval)}, excess: make(chan int, 1)}
	defer lifetime.Start(ctx, func(ctx context.Context) { o.sendAway(ctx, s.options.CacheCheckInterval) })()
	directory := peers.New(peers.Config{
		Leases: client.Leases(peers.Namespace), Name: serverLeaseName(config.Host), Interval: s.options.CacheCheckInterval,
		Self: o.self, Observe: o.observe, Logger: s.logger,
	})
	if err := directory.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		s.logger.Error("The server no longer knows about others", "err", err)
	}
}

// serverLeaseName returns the name of the Lease of this server, which stays the same
// after a restart. address distinguishes servers of one host.
func serverLeaseName(address string) string {
	host, _ := os.Hostname() // "" will do
	return fmt.Sprintf("%s%x", serverLeasePrefix, sha256.Sum256([]byte(host+" "+address)))[:len(serverLeasePrefix)+12]
}

// self returns the state that this server reports to others.
func (o *otherServers) self() peers.Member {
	b := o.tier.Backends
	m := peers.Member{
		Ready: b.Healthy() == nil && o.etcd.CacheError() == nil, Watches: o.tier.Tier.Watches(), Caches: map[string]peers.CacheState{},
	}
	for _, backend := range b.All() {
		if digest, revision, err := backend.Cache.Digest(); err == nil {
			m.Caches[backend.Cluster()] = peers.CacheState{Revision: revision, Digest: digest.String(), Algorithm: cache.DigestAlgorithm}
		}
	}
	return m
}

// observe uses the states of the other servers that run: for readiness, for checks of caches,
// and for the shares of watches.
func (o *otherServers) observe(others []peers.Member) {
	o.etcd.SetOthersReady(slices.ContainsFunc(others, func(m peers.Member) bool { return m.Ready }))
	for _, backend := range o.tier.Backends.All() {
		for _, m := range others {
			state, ok := m.Caches[backend.Cluster()]
			if !ok || backend.Scrubber == nil || state.Algorithm != cache.DigestAlgorithm {
				continue
			}
			if digest, err := cache.ParseDigest(state.Digest); err == nil {
				backend.Scrubber.Observe(m.Name, state.Revision, digest)
			}
		}
	}
	if n := o.rebalancer.Excess(peers.Member{Watches: o.tier.Tier.Watches()}, others); n > 0 {
		select {
		case o.excess <- n:
		default: // the watches of the last round are still being sent away
		}
	}
}

// sendAway sends watches elsewhere until the context ends. It spreads the watches of each
// round over most of an interval.
func (o *otherServers) sendAway(ctx context.Context, interval time.Duration) {
	for {
		select {
		case n := <-o.excess:
			o.tier.Backends.Logger.Info("This server has more watches than its share; some clients are asked to open another connection", "watches", n)
			o.tier.Tier.SendAway(ctx, n, time.Duration(float64(interval)*sendShare))
		case <-ctx.Done():
			return
		}
	}
}
