package tiermount

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/server/healthz"
	cachermetrics "k8s.io/apiserver/pkg/storage/cacher/metrics"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/millrace/millrace/internal/account/dashboard"
	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/conn/h1"
	"github.com/millrace/millrace/internal/conn/h2"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/memory"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/tier/source"
	"github.com/millrace/millrace/internal/tier/storage"
	"github.com/millrace/millrace/internal/tier/watch"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/sentobject"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// ReadTier is all that takes the place of Kubernetes' reads: the storage below its
// registries, and the handler in front of its handlers.
type ReadTier struct {
	Backends  *source.Backends
	Decorator *storage.Decorator
	Tier      *read.Tier
	Shares    memory.Shares
	budget    *encode.Budget
	recent    *encode.RecentFrames
	proofs    *transcode.Proofs
	// shared returns what all routes have in common. The first call makes it.
	shared func() *read.SharedConfig
	// ReadAccounts are the accounts of GETs and LISTs. The caller sets them before it builds
	// the server.
	ReadAccounts *usage.Accounts
	// Front wraps a handler, and serves the page that shows the reports.
	Front func(http.Handler) http.Handler
	// Counters are the metrics of the tier.
	Counters *read.Metrics
	// Failures counts answers with 500.
	Failures *FailureCounts
	// ReplicaReport makes the report about the upstream. It is nil if there is no upstream.
	ReplicaReport func() serverreport.ReplicaReport
	// Skew is SharedConfig.Skew of all routes. It is nil if there is no upstream. It must be
	// set before the first route is made.
	Skew *read.Skew
	// Verbatim returns the RouteConfig.Verbatim of a route in one format. It returns nil if
	// the route is not to be made. Verbatim itself is nil unless built-in resources are
	// answered as an upstream of another version sends them.
	Verbatim func(*kube.Route, sentobject.Format) *read.Verbatim
}

// New makes the tier and registers its metrics. From then on panics of Kubernetes' controllers
// do not end the process (kube.SurvivePanics). proofs is nil if nothing is to be transcoded.
func New(b *source.Backends, shares memory.Shares, o WatchOptions, proofs *transcode.Proofs) (*ReadTier, error) {
	budget := b.Cache.Budget
	cachermetrics.Register()
	// Package slo has this family, and counts a run of events in one call.
	legacyregistry.Registerer().Unregister(cachermetrics.DispatchStageDuration)
	counters, err := read.NewMetrics(legacyregistry.Register)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	failures := &FailureCounts{}
	for _, c := range []metrics.StableCollector{failures, &panicCollector{panics: b.Cache.Panics}, &collector{backends: b, budget: budget, proofs: proofs}, slo.NewCollector(b.WatchAccounts)} {
		if err := legacyregistry.CustomRegister(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	front, err := dashboard.Shell()
	if err != nil {
		return nil, err
	}
	recent := encode.NewRecentFrames(shares.WatchFrames)
	r := &ReadTier{
		Backends:  b,
		Decorator: &storage.Decorator{Backend: b.Of, Altered: kube.Altered, Uncached: kube.UncachedByDefault, Scan: kube.AttributeScanner, Usable: kube.Usable},
		Tier:      read.NewTier(read.Config{Metrics: counters, Logger: b.Logger, PassedOnElsewhere: b.ReadOnly, DrainTime: o.DrainTime}),
		Shares:    shares,
		budget:    budget,
		recent:    recent,
		proofs:    proofs,
		Front:     front,
		Counters:  counters,
		Failures:  failures,
	}
	kube.SurvivePanics(b.Cache.Panics)
	r.shared = sync.OnceValue(func() *read.SharedConfig {
		shared := newShared(b, budget, recent, o, proofs)
		shared.Skew = r.Skew
		return shared
	})
	return r, nil
}

// newShared makes what all routes share. It is called when the first route is made,
// because feature gates are set by then.
func newShared(b *source.Backends, budget *encode.Budget, recent *encode.RecentFrames, o WatchOptions, proofs *transcode.Proofs) *read.SharedConfig {
	gate, watches := utilfeature.DefaultFeatureGate, o.Compression
	if watches == read.CompressWatchLists && !gate.Enabled(features.WatchListCompression) {
		watches = read.CompressRequestedWatches
	}
	var depth func() int
	if b.ReadOnly {
		depth = b.Depth
	}
	return &read.SharedConfig{
		Budget: budget, RecentFrames: recent, Proofs: proofs, Accounts: b.WatchAccounts,
		Compress: gate.Enabled(features.APIResponseCompression), CompressWatches: watches, MinTimeout: o.MinTimeout,
		BoundedStaleness: b.MaxStaleness > 0, Depth: depth, Panics: b.Cache.Panics,
	}
}

// ReleaseTransient drops segments and frames that are kept only for current readers.
func (r *ReadTier) ReleaseTransient() {
	r.budget.ReleaseTransient()
	r.recent.Release()
}

// ForgetResources drops the accounts of resources that are gone, and of their
// subresources. ReadAccounts must be set.
func (r *ReadTier) ForgetResources(gone map[schema.GroupResource]bool) {
	isGone := func(resource string) bool {
		gr := schema.ParseGroupResource(resource)
		gr.Resource, _, _ = strings.Cut(gr.Resource, "/")
		return gone[gr]
	}
	r.ReadAccounts.Forget(isGone)
	r.Backends.WatchAccounts.Forget(isGone)
}

// Hooks returns the points at which the tier replaces parts of Kubernetes' server.
func (r *ReadTier) Hooks() kube.Hooks {
	return kube.Hooks{
		Storage:   r.Decorator.Decorate,
		Stored:    r.Decorator.Store,
		Reads:     r.Tier.Wrap,
		Front:     r.Front,
		Protocols: UseProtocols, CustomResources: r.CustomResources(),
		Logger: r.Backends.Logger,
		Ready:  r.Ready(),
		Panics: r.Backends.Cache.Panics, Failed: r.Failures.Add,
	}
}

// UseProtocols makes an http.Server speak HTTP/1.1 and HTTP/2 by our own servers.
func UseProtocols(s *http.Server, p kube.Protocols) error {
	if h1.Configure(s); p.Streams == 0 {
		return nil
	}
	return h2.New(h2.Config{MaxConcurrentStreams: uint32(p.Streams), Inline: p.Inline}).Configure(s)
}

// CustomResources configures the server of custom resources.
func (r *ReadTier) CustomResources() crd.Config {
	return crd.Config{
		CompiledBytes: r.Shares.CompiledSchemas, ConvertedBytes: r.Shares.ConvertedObjects,
		Logger: r.Backends.Logger, Route: r.route, Stored: r.Decorator.CountKeys, Gone: r.ForgetResources,
	}
}

// Ready returns the tier's checks of /readyz.
func (r *ReadTier) Ready() []healthz.HealthChecker {
	return []healthz.HealthChecker{
		healthz.NamedCheck("millrace-feed", func(*http.Request) error { return r.Backends.Healthy() }),
		healthz.NamedCheck("millrace-cache", func(*http.Request) error { return r.Backends.CacheReadyError() }),
	}
}

// WatchOptions are the flags that concern watches.
type WatchOptions struct {
	// MinTimeout is --min-request-timeout.
	MinTimeout time.Duration
	// DrainTime is read.Config.DrainTime.
	DrainTime time.Duration
	// Compression is --watch-compression.
	Compression read.WatchCompression
}

// route completes a route's configuration with what all routes share, and makes it.
func (r *ReadTier) route(cfg read.RouteConfig) (*read.Route, error) {
	cfg.Shared = r.shared()
	return read.NewRoute(cfg)
}

// RouteSource is a server as the tier needs it: kube.Server or kube.Replica.
type RouteSource interface {
	Routes() []kube.Route
	CustomRoute(schema.GroupVersionResource) *read.Route
	CustomResources() serverreport.CRDsReport
	definitionSource
	Authorizer() authorizer.UnconditionalAuthorizer
	Handle(prefix string, h http.Handler)
}

// tablesOf returns the tables of a route's kind. It returns nil for kinds that tables do not
// describe, and if nothing is to be transcoded.
func (r *ReadTier) tablesOf(tables *transcode.Tables, route *kube.Route) *transcode.Kind {
	if r.proofs == nil {
		return nil
	}
	kind, err := tables.Kind(route.Scheme, route.Kind)
	if err != nil {
		r.Backends.Logger.Debug("Objects of a kind are always encoded by Kubernetes.", "kind", route.Kind.String(), "reason", err.Error())
		return nil
	}
	return kind
}

// SetRoutes gives the tier a route for every built-in resource that is stored, unless Verbatim
// leaves it out. It gives the tier the finder of the routes of custom resources, and the
// authorizer. It also installs the reports. It must be called once, before the server runs.
func (r *ReadTier) SetRoutes(server RouteSource) error {
	hubs := map[*cache.Resource]*watch.Hub{}
	tables := transcode.NewTables()
	var routes []*read.Route
	for _, route := range server.Routes() {
		s := r.Decorator.Store(route.Stored)
		if s == nil {
			continue
		}
		hub := hubs[s.Resource()]
		if hub == nil {
			hub = watch.NewHub(s.Resource())
			hubs[s.Resource()] = hub
		}
		cfg := read.RouteConfig{
			Resource: route.Resource, Kind: route.Kind, Namespaced: route.Namespaced,
			Gets: route.Gets, Lists: route.Lists, Watches: route.Watches, Serializer: route.Serializer,
			Hub: hub, Objects: s, Convertor: route.Convertor, Table: route.Table,
			Warning: route.Warning, RemovedRelease: route.RemovedRelease, Transcode: r.tablesOf(tables, &route),
			// Definitions are large, and only installers and some operators read them.
			Rare: route.Stored == apiextensions.Resource("customresourcedefinitions"),
		}
		if r.Verbatim != nil {
			if made, err := r.useVerbatim(&cfg, &route); err != nil {
				return err
			} else if !made {
				continue
			}
		}
		completed, err := r.route(cfg)
		if err != nil {
			return err
		}
		routes = append(routes, completed)
	}
	r.Tier.SetRoutes(routes)
	r.Tier.SetFinder(server.CustomRoute)
	r.Tier.SetAuthorizer(server.Authorizer())
	server.Handle(dashboard.Prefix, dashboard.Handler(r.reportSource(server)))
	if err := legacyregistry.CustomRegister(&definitionCollector{source: server}); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}
