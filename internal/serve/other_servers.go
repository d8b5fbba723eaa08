package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/serve/peers"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/lifetime"
	"github.com/millrace/millrace/internal/tier/source"
)

const (
	// minCacheCheck is the shortest interval of checks, which keeps them from being a load.
	minCacheCheck = 500 * time.Millisecond
	// maxCacheCheck is the longest one. A wrong cache is found in that time, and a server that
	// is gone is forgotten in three of it.
	maxCacheCheck = 5 * time.Minute
	// rebalanceWindow is that of peers.Rebalancer.
	rebalanceWindow = 10 * time.Minute
	// drainShare is the part of the grace period for watches over which their ends are
	// spread. The rest is for clients to read the end.
	drainShare = 0.8
	// serverLeasePrefix begins the names of the servers' Leases.
	serverLeasePrefix = "millrace-server-"
)

// addCacheCheckFlags adds the flags of what a cache is compared with.
func (o *Options) addCacheCheckFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.CacheCheckInterval, "cache-check-interval", o.CacheCheckInterval, "How often the objects in memory are checked against their digest, and with --server-leases against the digests of other servers. All objects are also compared with etcd, slowly. Objects that are wrong are loaded anew. Meanwhile the server is not ready if --server-leases tells it of another one that is. At most 5m; 0 checks nothing. Resources that are followed by an API server are not checked.")
}

// addServerFlags adds the flags of servers that know each other.
func (o *Options) addServerFlags(fs *pflag.FlagSet) {
	o.addCacheCheckFlags(fs)
	fs.BoolVar(&o.ServerLeases, "server-leases", o.ServerLeases, "Write a Lease in kube-system in each --cache-check-interval, by which the servers over one etcd compare their caches and share their watches. The default is false with the embedded etcd.")
	fs.IntVar(&o.RebalanceAbove, "rebalance-watches", o.RebalanceAbove, "How many percent more watches than its share a server may have, before it asks some clients to open another connection, as in 10. Give it where a balancer spreads new connections over the servers. 0 never asks. Needs --server-leases.")
}

// validateCacheChecks checks the flags of addServerFlags.
func (o *Options) validateCacheChecks() error {
	if o.CacheCheckInterval < 0 || o.CacheCheckInterval > 0 && o.CacheCheckInterval < minCacheCheck {
		return fmt.Errorf("--cache-check-interval=%v is too short: give 0 to check nothing, or at least %v", o.CacheCheckInterval, minCacheCheck)
	}
	if o.CacheCheckInterval > maxCacheCheck {
		return fmt.Errorf("--cache-check-interval=%v is too long: give at most %v, or 0 to check nothing", o.CacheCheckInterval, maxCacheCheck)
	}
	if o.RebalanceAbove < 0 {
		return fmt.Errorf("--rebalance-watches=%d is negative: give 0 to leave watches where they are", o.RebalanceAbove)
	}
	return nil
}

// drainTime is the time over which the ends of watches are spread at a shutdown.
func (o *Options) drainTime() time.Duration {
	grace, _ := o.flags.GetDuration("shutdown-watch-termination-grace-period")
	return time.Duration(float64(grace) * drainShare)
}

// knowsOthers reports whether this server writes a Lease and reads those of others.
func (s *Server) knowsOthers(b *source.Backends) bool {
	return !b.ReadOnly && s.options.ServerLeases && s.options.CacheCheckInterval > 0
}

// otherServers is what this server has to do with others over the same etcd.
type otherServers struct {
	tier       *tiermount.ReadTier
	rebalancer peers.Rebalancer
	// excess has how many watches to send elsewhere.
	excess chan int
}

// runOtherServers returns a function that has servers know each other until this one is told
// to end, which is when serving is over.
func (s *Server) runOtherServers(serving context.Context, tier *tiermount.ReadTier, server runnable) func(context.Context) {
	return func(ctx context.Context) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(serving, stop)()
		if !s.knowsOthers(tier.Backends) || server.WaitReady(ctx) != nil {
			return
		}
		config := server.Loopback()
		config.UserAgent, config.QPS = "millrace-servers", -1
		client, err := coordinationclient.NewForConfig(config)
		if err != nil {
			s.logger.Error("Could not make the client for the servers' Leases", "err", err)
			return
		}
		o := &otherServers{tier: tier, rebalancer: peers.Rebalancer{Above: s.options.RebalanceAbove, Window: int(rebalanceWindow / s.options.CacheCheckInterval)}, excess: make(chan int, 1)}
		defer lifetime.RunUntilStopped(ctx, func(ctx context.Context) { o.sendAway(ctx, s.options.CacheCheckInterval) })()
		directory := peers.New(peers.Config{
			Leases: client.Leases(peers.Namespace), Name: serverLeaseName(config.Host), Interval: s.options.CacheCheckInterval,
			Self: o.self, Observe: o.observe, Logger: s.logger,
		})
		if err := directory.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			s.logger.Error("The server no longer knows about others", "err", err)
		}
	}
}

// serverLeaseName is the same after a restart. address distinguishes servers of one host.
func serverLeaseName(address string) string {
	host, _ := os.Hostname() // "" will do
	return fmt.Sprintf("%s%x", serverLeasePrefix, sha256.Sum256([]byte(host+" "+address)))[:len(serverLeasePrefix)+12]
}

// self is what this server tells others.
func (o *otherServers) self() peers.Member {
	b := o.tier.Backends
	m := peers.Member{
		Ready: b.Healthy() == nil && b.WrongCaches() == nil, Watches: o.tier.Tier.Watches(), Caches: map[string]peers.CacheState{},
	}
	for _, backend := range b.All() {
		if digest, revision, err := backend.Cache.Digest(); err == nil {
			m.Caches[backend.Cluster()] = peers.CacheState{Revision: revision, Digest: digest.String(), Algorithm: cache.DigestAlgorithm}
		}
	}
	return m
}

// observe takes what the others tell.
func (o *otherServers) observe(others []peers.Member) {
	o.tier.Backends.SetOthersReady(slices.ContainsFunc(others, func(m peers.Member) bool { return m.Ready }))
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
		default: // those of the last round are still being sent
		}
	}
}

// sendAway sends watches elsewhere until the context ends, those of each round spread over
// most of an interval.
func (o *otherServers) sendAway(ctx context.Context, interval time.Duration) {
	for {
		select {
		case n := <-o.excess:
			o.tier.Backends.Logger.Info("This server has more watches than its share; some clients are asked to open another connection", "watches", n)
			o.tier.Tier.SendAway(ctx, n, time.Duration(float64(interval)*drainShare))
		case <-ctx.Done():
			return
		}
	}
}
