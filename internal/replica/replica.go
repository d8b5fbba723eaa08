// Package replica wires everything into `millrace replica`: reads in front of another API
// server, the upstream.
//
//	request ─► upstream.Stash ─► filters ─► handler ─┬─► read tier ◄── follow ◄─┐
//	                                right decides    ├─► document               │
//	                                                 └─► upstream.Proxy ─► upstream
//
// With --etcd-servers the read tier follows etcd in place of the upstream's API.
//
// This package decides in which order all starts and stops, and has the flags, the report and
// the kubeconfig of the program. A caller makes Options, adds their flags to a command, and
// calls New and Run once. It restarts the process if Run returns ErrRestart.
package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/apiserver/program"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/replica/follow"
	"github.com/millrace/millrace/internal/replica/handler"
	"github.com/millrace/millrace/internal/replica/right"
	"github.com/millrace/millrace/internal/replica/upstream"
	"github.com/millrace/millrace/internal/tier/lifetime"
	"github.com/millrace/millrace/internal/tier/memory"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/tier/source"
)

// Replica is one `millrace replica`.
type Replica struct {
	options *Options
	// out receives what is printed for people. Logs go elsewhere.
	out    io.Writer
	logger *slog.Logger
	// door makes all connections to the upstream.
	door     *upstream.Door
	upstream *upstream.Upstream
	// counters are the metrics of door and upstream.
	counters *upstream.Metrics
	// panics counts panics of foreign code.
	panics *panics.Counter
	// resources is the source of objects without etcd. It is nil with etcd.
	resources *follow.Resources
	// etcd is the source of objects with etcd. It is nil without etcd.
	etcd   *source.Etcd
	policy *follow.Policy
	server *kube.Replica
	// runRights must run beside the server. It is set with server.
	runRights func(context.Context)
	ready     atomic.Bool
	// outdated receives once why the replica must be restarted.
	outdated chan error
	// budgets bound what clients read. They are nil without a limit.
	budgets *usage.Budgets
}

// New checks the options and makes a replica. out receives what a person is to read. New starts
// nothing.
func New(o *Options, out io.Writer) (*Replica, error) {
	o.SetFlags("replica", o.flags)
	if err := o.SetDefaults(kube.ReplicaDefaults()); err != nil {
		return nil, err
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Replica{options: o, out: out, logger: program.NewLogger(), outdated: make(chan error, 1)}, nil
}

// Run serves until the context ends, the replica fails, or it must be restarted (ErrRestart).
// Then it returns once everything that it started has ended. A replica that has restarted
// itself returns ErrRestart also for a failure before it is ready: the upstream is being
// upgraded.
func (r *Replica) Run(ctx context.Context) error {
	err := r.run(ctx)
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return nil // it was stopped before it was ready
	case err == nil || !wasRestarted() || r.ready.Load() || errors.Is(err, ErrRestart):
		return err
	}
	r.logger.Warn("This replica could not start for an upstream that is being upgraded, and tries again", "err", err)
	select {
	case <-time.After(retryPause):
		return fmt.Errorf("%w: %w", ErrRestart, err)
	case <-ctx.Done():
		return nil
	}
}

func (r *Replica) run(ctx context.Context) error {
	o := r.options
	o.PrintStart(r.out)
	if err := o.Kube.Apply(); err != nil {
		return err
	}
	if err := o.SetShutdownDefaults(); err != nil {
		return err
	}
	memory.SetLoadingGCPercent()
	shares := o.MemoryShares(memory.Available())
	b := o.NewBackends(shares, r.logger)
	b.ReadOnly, b.MaxStaleness = true, o.BoundedStaleness
	r.panics = b.Cache.Panics
	config, err := r.findUpstream(ctx)
	if err != nil {
		return err
	}
	release, err := r.openSource(ctx, config, b, shares)
	if err != nil {
		return err
	}
	defer release()
	defer b.Close()
	tier, err := tiermount.New(b, shares, r.watches(), o.NewProofs(r.logger))
	if err != nil {
		return err
	}
	r.policy.ChooseMode(tier)
	r.adviseDelegation(ctx)
	r.budgets = usage.NewBudgets(usage.BudgetConfig{CPUSeconds: o.BudgetCPUSeconds, Bytes: float64(o.BudgetBytes.Value())})
	if tier.ReadAccounts, err = o.NewReadAccounts(r.budgets, r.logger); err != nil {
		return err
	}
	tier.Tier.SetAccounts(tier.ReadAccounts, b.WatchAccounts)
	defer lifetime.Start(ctx, tier.ReadAccounts.Run)()
	if r.etcd != nil {
		if err := r.etcd.Ping(ctx, o.Kube.Etcd().StorageConfig.Transport); err != nil {
			return err
		}
	}
	if err := r.build(ctx, config, tier); err != nil {
		return err
	}
	defer lifetime.Start(ctx, r.upstream.Run)()
	defer lifetime.Start(ctx, r.policy.Run)()
	defer lifetime.Start(ctx, r.runRights)()
	return r.runUntilRestart(ctx, b, func(ctx context.Context) error {
		return o.RunWithFeeds(ctx, program.Run{Server: r.server, Tier: tier, Loaded: r.policy.CheckEtcd, Welcome: func() { r.ready.Store(true); r.policy.Ready(); r.printWelcome() }})
	})
}

// ErrRestart says that a replica has ended and must be restarted. The caller restarts the
// whole process: much of Kubernetes' server can be made only once in a process.
var ErrRestart = errors.New("this replica must be restarted")

// followedVariable is the environment variable with what a replica followed before it was
// restarted.
const followedVariable = "MILLRACE_REPLICA_FOLLOWED"

// wasRestarted reports whether the replica has restarted its own process.
func wasRestarted() bool {
	_, again := os.LookupEnv(followedVariable)
	return again
}

// restart is a follow.PolicyConfig.Restart.
func (r *Replica) restart(reason error) {
	if err := os.Setenv(followedVariable, strings.Join(r.policy.FollowedKeys(), ",")); err != nil {
		r.logger.Warn("What is followed now is followed again when it is read", "err", err)
	}
	r.outdated <- reason
}

// runUntilRestart calls serve, and ends it if what the caches hold means nothing any more, or
// the replica must be restarted. It returns the reason, or else what serve has returned.
func (r *Replica) runUntilRestart(ctx context.Context, b *source.Backends, serve func(context.Context) error) error {
	serving, cancel := context.WithCancelCause(ctx)
	defer lifetime.Start(ctx, func(ctx context.Context) {
		select {
		case reason := <-r.outdated:
			r.logger.Warn("This replica ends in order and restarts", "reason", reason)
			cancel(fmt.Errorf("%w: %w", ErrRestart, reason))
		case <-ctx.Done():
		}
	})()
	err := b.RunUntilFailure(serving, serve)
	if cause := context.Cause(serving); errors.Is(cause, ErrRestart) && ctx.Err() == nil {
		return cause
	}
	return err
}

// findUpstream makes the door to the upstream, and asks what the upstream is and serves. It
// returns the configuration of clients with the replica's own credentials.
func (r *Replica) findUpstream(ctx context.Context) (*rest.Config, error) {
	named, err := r.options.source().Load("replica")
	if err != nil {
		return nil, err
	}
	named.QPS = -1
	if r.counters, err = upstream.NewMetrics(legacyregistry.Register); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if r.door, err = upstream.NewDoor(upstream.DoorConfig{
		Upstream: named, FrontProxyCert: r.options.ProxyClientCert, FrontProxyKey: r.options.ProxyClientKey,
		MayFollow: r.options.mayCopy, Metrics: r.counters, Logger: r.logger,
	}); err != nil {
		return nil, err
	}
	if r.upstream, err = upstream.New(upstream.Config{Door: r.door, Own: r.options.Kube.VersionInfo(), Logger: r.logger, Panics: r.panics}); err != nil {
		return nil, err
	}
	if err := r.readUpstream(ctx); err != nil {
		return nil, fmt.Errorf("%w: check that %s answers, and the user in %s", err, named.Host, r.options.Kubeconfig)
	}
	if r.options.ProxyClientCert != "" {
		if err := r.upstream.FrontProxy().Check(); err != nil {
			return nil, err
		}
	}
	return r.door.Own(), nil
}

// retryPause is the time between two attempts of readUpstream, and before a replica restarts
// that could not start.
const retryPause = time.Second

// readUpstream asks the upstream what it is and serves. A replica that was restarted by itself
// waits for an answer: the upstream is being upgraded.
func (r *Replica) readUpstream(ctx context.Context) error {
	again := wasRestarted()
	for {
		err := r.upstream.Read()
		if err == nil && again {
			_, err = r.upstream.Cluster(ctx) // which only a server answers that is ready
		}
		if err == nil || !again {
			return err
		}
		r.logger.Warn("The upstream does not answer yet, for which this replica was restarted", "err", err)
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// openSource opens the data directory, and makes the source of objects and the policy of what
// is followed. Unless it fails, the caller calls release, which closes the directory, once
// nothing uses the source.
func (r *Replica) openSource(ctx context.Context, config *rest.Config, b *source.Backends, shares memory.Shares) (release func(), err error) {
	o := r.options
	kept, release, err := r.openCheckpoints(ctx, b)
	if err != nil {
		return nil, err
	}
	if o.usesEtcd() {
		storage := o.Kube.Etcd().StorageConfig
		r.etcd = source.NewEtcd(b, source.EtcdConfig{
			Prefix: storage.Prefix, Main: storage.Transport.ServerList, ReplayRevisions: shares.ReplayRevisions, CheckInterval: o.CacheCheckInterval,
		})
	} else if r.resources, err = r.newResources(ctx, config, b, kept); err != nil {
		release()
		return nil, err
	}
	r.policy = follow.NewPolicy(follow.PolicyConfig{
		Upstream: r.upstream, Resources: r.resources, Follow: o.Follow, Exclude: o.Exclude, Only: o.FollowOnly,
		Restart: r.restart, FollowedBefore: strings.Split(os.Getenv(followedVariable), ","), OwnVersion: o.Kube.VersionInfo().GitVersion, Logger: r.logger,
	})
	return release, nil
}

// newResources makes the source of resources that are followed by the upstream's API.
func (r *Replica) newResources(ctx context.Context, config *rest.Config, b *source.Backends, kept *follow.Checkpoints) (*follow.Resources, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the upstream: %w", err)
	}
	client.Timeout = 0 // watches
	address, err := baseURL(config)
	if err != nil {
		return nil, err
	}
	sibling, err := r.openSibling(ctx)
	if err != nil {
		return nil, err
	}
	made := follow.New(b, follow.Config{
		Client: client, Host: address, MaxBytes: r.options.FollowBytes.Value(), DropAfter: r.options.DropUnread,
		Checkpoints: kept, Sibling: sibling, Logger: r.logger,
	})
	if err := legacyregistry.CustomRegister(made.Collector()); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return made, nil
}

// watches returns the options of watches. Kubernetes compresses watch-lists since 1.37. If the
// upstream is of another version, watches are compressed only on request.
func (r *Replica) watches() tiermount.WatchOptions {
	made := r.options.Watches()
	if made.Compression == read.CompressWatchLists && r.upstream.Skew() != 0 {
		made.Compression = read.CompressRequestedWatches
	}
	return made
}

// build makes the server of the replica and all that answers its requests, and writes its
// kubeconfig.
func (r *Replica) build(ctx context.Context, config *rest.Config, tier *tiermount.ReadTier) error {
	reviews, err := right.NewReviews(right.ReviewConfig{Panics: r.panics})
	if err != nil {
		return err
	}
	legacyregistry.CustomMustRegister(reviews.Collector())
	var answers http.Handler
	kubeconfig, remove, err := r.options.kubeconfigFile()
	if err != nil {
		return err
	}
	defer remove()
	r.options.Kube.UseUpstream(kubeconfig, config)
	r.server, err = kube.BuildReplica(r.options.Kube, kube.ReplicaConfig{
		Served: r.upstream.Versions(), Storage: tier.Decorator.Decorate, Stored: tier.Decorator.Store, CustomResources: r.customResources(tier),
		Requests: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { answers.ServeHTTP(w, req) }),
		Reviews:  reviews, Authenticator: upstream.NewAuthenticator, Outermost: upstream.Stash, Local: isLocal,
		Front: tier.Front, Protocols: tiermount.UseProtocols, Ready: tier.Ready(), Panics: tier.Backends.Cache.Panics, Failed: tier.Failures.Add,
	})
	if err != nil {
		return r.options.Explain(err)
	}
	documents, err := r.newDocuments(tier)
	if err != nil {
		return err
	}
	if err := r.policy.Use(r.server, tier.Decorator.Store); err != nil {
		return err
	}
	if answers, err = r.newHandler(ctx, tier, handler.Config{
		Documents: documents, Proxy: r.newProxy(reviews), Metrics: r.counters, UpstreamURL: config.Host, Serializer: scheme.Codecs,
	}); err != nil {
		return err
	}
	if r.etcd != nil {
		etcdmetrics.SetStorageMonitorGetter(func() ([]etcdmetrics.Monitor, error) { return r.etcd.Monitors(), nil })
	}
	tier.ReplicaReport = r.newReporter(config, tier, r.counters).report
	if err := tier.SetRoutes(r.server); err != nil || r.options.WriteKubeconfig == "" {
		return err
	}
	return r.writeKubeconfig()
}

// customResources configures the server of custom resources.
func (r *Replica) customResources(tier *tiermount.ReadTier) crd.Config {
	custom := tier.CustomResources()
	custom.Stored = nil // the cache has every key that is read
	if r.resources != nil {
		custom.Outdated = r.resources.Outdated
		custom.Gone = func(gone map[schema.GroupResource]bool) {
			r.resources.Drop(gone)
			tier.ForgetResources(gone)
		}
	}
	return custom
}

// newProxy makes what passes requests on.
func (r *Replica) newProxy(reviews *right.Reviews) http.Handler {
	return upstream.NewProxy(upstream.ProxyConfig{
		Door: r.door, MayImpersonate: r.upstream.MayImpersonate, FrontProxy: r.upstream.FrontProxy, TokenRefused: reviews.Recheck,
		Serializer: scheme.Codecs, Metrics: r.counters, Logger: r.logger,
	})
}

// isLocal reports whether a path is about the replica itself and not about the upstream. Paths
// that no server has, such as /healthz/, are the upstream's to refuse.
func isLocal(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "healthz", "livez", "readyz", "metrics":
		return !upstream.IsUnclean(path) && !strings.HasSuffix(path, "/")
	case "debug":
		return !upstream.IsUnclean(path)
	}
	return false
}
