package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/replica/handler"
	"github.com/millrace/millrace/internal/replica/upstream"
	"github.com/millrace/millrace/internal/tier/lifetime"
	"github.com/millrace/millrace/internal/tier/memory"
	"github.com/millrace/millrace/internal/tier/source"
)

// Replica is one `millrace replica`.
type Replica struct {
	*Server
	options *ReplicaOptions
	// door leads to the upstream, and upstream knows what it is. counters are the metrics of both.
	door     *upstream.Door
	upstream *upstream.Upstream
	counters *upstream.Metrics
	// builtIn has, for each built-in resource that has a route, the stored resource and the
	// version in which it is stored. It is set before anything is served.
	builtIn map[schema.GroupVersionResource]schema.GroupVersionResource
	// isVerbatim says that built-in resources are answered as the upstream sends them,
	// because its minor version is another one. verbatim are the versions of which that is
	// done, by stored resource. Both are set before anything is served.
	isVerbatim bool
	verbatim   map[schema.GroupResource]verbatimVersion
	server     *kube.Replica
	backends   *source.Backends
	api        *source.API // nil with etcd
	// runRights must run beside the server. It is set with server.
	runRights func(context.Context)
	// budgets bound what clients read. They are nil without a limit.
	budgets *usage.Budgets
}

// NewReplica checks the options and makes a replica. out receives what a person is to
// read. NewReplica starts nothing.
func NewReplica(o *ReplicaOptions, out io.Writer) (*Replica, error) {
	o.Options.flags, o.command = o.flags, "replica"
	if err := o.setDefaults(kube.ReplicaDefaults()); err != nil {
		return nil, err
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := &Replica{Server: &Server{options: o.Options, out: out, logger: NewLogger(), program: "millrace"}, options: o}
	r.welcome = func() { r.followCustom(); r.printWelcome() }
	if len(os.Args) > 0 {
		r.program = os.Args[0]
	}
	return r, nil
}

// Run serves until the context ends and everything that it started has ended.
func (r *Replica) Run(ctx context.Context) error {
	err := r.run(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // it was stopped before it was ready
	}
	return err
}

func (r *Replica) run(ctx context.Context) error {
	o := r.options
	if err := o.Kube.Apply(); err != nil {
		return err
	}
	if err := o.setShutdownDefaults(); err != nil {
		return err
	}
	memory.PaceLoad()
	shares := o.memoryShares(memory.Available())
	b := r.newBackends(shares, nil)
	b.Compact, b.ReadOnly, b.MaxStaleness = 0, true, o.BoundedStaleness
	r.backends = b
	config, err := r.findUpstream()
	if err != nil {
		return err
	}
	release, err := r.openCheckpoints(ctx, b)
	if err != nil {
		return err
	}
	defer release()
	defer b.Close()
	if !o.usesEtcd() {
		if r.api, err = r.newAPISource(ctx, config, b); err != nil {
			return err
		}
		b.API = r.api
	}
	tier, err := tiermount.New(b, shares, r.watches(), o.newProofs(r.logger))
	if err != nil {
		return err
	}
	r.chooseMode(tier)
	r.adviseDelegation(ctx)
	r.budgets = usage.NewBudgets(usage.BudgetConfig{CPUSeconds: o.BudgetCPUSeconds, Bytes: float64(o.BudgetBytes.Value())})
	accounts, err := r.newReadAccounts(r.budgets)
	if err != nil {
		return err
	}
	tier.ReadAccounts = accounts
	tier.Tier.SetAccounts(accounts)
	defer lifetime.RunUntilStopped(ctx, accounts.Run)()
	if o.usesEtcd() {
		if err := r.pingEtcd(ctx, b); err != nil {
			return err
		}
	}
	if err := r.build(ctx, config, tier); err != nil {
		return err
	}
	defer lifetime.RunUntilStopped(ctx, r.upstream.Run)()
	defer lifetime.RunUntilStopped(ctx, r.runRights)()
	return b.RunUntilFailure(ctx, func(ctx context.Context) error { return r.runWithFeeds(ctx, tier, r.server) })
}

// findUpstream reads the kubeconfig, and asks the upstream what it is and serves. It returns the
// configuration of what the replica asks for itself.
func (r *Replica) findUpstream() (*rest.Config, error) {
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
	if r.upstream, err = upstream.New(upstream.Config{Door: r.door, Own: r.options.Kube.VersionInfo(), Logger: r.logger, Panics: r.backends.Cache.Panics}); err != nil {
		return nil, err
	}
	if err := r.upstream.Read(); err != nil {
		return nil, fmt.Errorf("%w: check that %s answers, and the user in %s", err, named.Host, r.options.Kubeconfig)
	}
	if r.options.ProxyClientCert != "" {
		if err := r.upstream.FrontProxy().Check(); err != nil {
			return nil, err
		}
	}
	return r.door.Own(), nil
}

// newAPISource makes the source of objects for a replica without etcd.
func (r *Replica) newAPISource(ctx context.Context, config *rest.Config, b *source.Backends) (*source.API, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the upstream: %w", err)
	}
	client.Timeout = 0 // watches
	address, err := baseURL(config)
	if err != nil {
		return nil, err
	}
	made := source.NewAPI(client, address, b)
	from, err := r.openSibling(ctx)
	made.SetSibling(from)
	return made, err
}

// build makes the server, and gives the tier its routes.
func (r *Replica) build(ctx context.Context, config *rest.Config, tier *tiermount.ReadTier) error {
	custom := tier.CustomResources()
	custom.Stored = nil // the cache has every key that is read
	if r.api != nil {
		custom.Gone = func(gone map[schema.GroupResource]bool) {
			r.api.Drop(gone)
			tier.ForgetResources(gone)
		}
	}
	var answers http.Handler
	kubeconfig, remove, err := r.options.kubeconfigFile()
	if err != nil {
		return err
	}
	defer remove()
	r.options.Kube.UseUpstream(kubeconfig, config)
	r.server, err = kube.BuildReplica(r.options.Kube, kube.ReplicaConfig{
		Served: r.upstream.Versions(), Storage: tier.Decorator.Decorate, Stored: tier.Decorator.Store, CustomResources: custom,
		Requests:      http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { answers.ServeHTTP(w, req) }),
		Authenticator: upstream.NewAuthenticator, Outermost: upstream.Stash, Local: isLocal,
		Front: tier.Front, Protocols: tiermount.UseProtocols, Ready: tier.Ready(), Logger: r.logger, Panics: tier.Backends.Cache.Panics, Failed: tier.Failures.Add,
	})
	if err != nil {
		return r.options.explain(err)
	}
	documents, err := r.newDocuments(tier)
	if err != nil {
		return err
	}
	r.builtIn = map[schema.GroupVersionResource]schema.GroupVersionResource{}
	for _, route := range r.server.Routes() {
		r.builtIn[route.Resource] = route.Stored.WithVersion(route.StorageVersion.Version)
	}
	r.chooseVersions(r.server.Routes())
	if answers, err = r.newHandler(ctx, tier, handler.Config{
		Documents: documents, Proxy: r.newProxy(), Metrics: r.counters, UpstreamURL: config.Host, Serializer: scheme.Codecs,
	}); err != nil {
		return err
	}
	main := strings.Join(r.options.Kube.EtcdServers(), ",")
	etcdmetrics.SetStorageMonitorGetter(func() ([]etcdmetrics.Monitor, error) { return tier.Backends.Monitors(main), nil })
	tier.ReplicaReport = r.newReporter(config, tier, r.counters).report
	if err := tier.SetRoutes(r.server); err != nil {
		return err
	}
	if r.options.WriteKubeconfig != "" {
		if err := r.writeKubeconfig(); err != nil {
			return err
		}
	}
	return r.followFromStart()
}

// newProxy makes what passes requests on.
func (r *Replica) newProxy() http.Handler {
	return upstream.NewProxy(upstream.ProxyConfig{
		Door: r.door, MayImpersonate: r.upstream.MayImpersonate, FrontProxy: r.upstream.FrontProxy,
		Serializer: scheme.Codecs, Metrics: r.counters, Logger: r.logger,
	})
}

// isLocal reports whether a path belongs to the replica itself. The upstream has most of
// these paths, too; those of this process are what an operator needs here.
func isLocal(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "healthz", "livez", "readyz", "metrics", "debug":
		return true
	}
	return false
}
