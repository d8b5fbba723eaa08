package server

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

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/crd"
	"github.com/millrace/millrace/internal/dashboard"
	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/h1"
	"github.com/millrace/millrace/internal/h2"
	"github.com/millrace/millrace/internal/kube"
	"github.com/millrace/millrace/internal/read"
	"github.com/millrace/millrace/internal/report"
	"github.com/millrace/millrace/internal/sentobject"
	"github.com/millrace/millrace/internal/slo"
	"github.com/millrace/millrace/internal/storage"
	"github.com/millrace/millrace/internal/transcode"
	"github.com/millrace/millrace/internal/usage"
	"github.com/millrace/millrace/internal/watch"
)

// readTier is all that takes the place of Kubernetes' reads: the storage below its
// registries, and the handler in front of its handlers.
type readTier struct {
	backends  *backends
	decorator *storage.Decorator
	tier      *read.Tier
	shares    MemoryShares
	budget    *encode.Budget
	recent    *encode.RecentFrames
	proofs    *transcode.Proofs
	// shared returns what all routes have in common.
	shared func() *read.SharedConfig
	// readAccounts are the accounts of GETs and LISTs. They are set before hooks are
	// called.
	readAccounts *usage.Accounts
	// front serves the page that shows the reports.
	front func(http.Handler) http.Handler
	// counters are the metrics of the tier.
	counters *read.Metrics
	// failures counts answers with 500.
	failures *failureCounts
	// replicaReport makes the report about the upstream; nil if there is none.
	replicaReport func() report.ReplicaReport
	// skew is SharedConfig.Skew of all routes. It is nil unless there is an upstream.
	skew *read.Skew
	// verbatim returns the RouteConfig.Verbatim of a route in one format, nil if the route is
	// not to be made. It is nil itself unless the upstream is of another version.
	verbatim func(*kube.Route, sentobject.Format) *read.Verbatim
}

// newReadTier makes the tier and registers the metrics of reads. proofs is nil if nothing is
// to be transcoded.
func newReadTier(b *backends, shares MemoryShares, o watchOptions, proofs *transcode.Proofs) (*readTier, error) {
	budget := b.cache.Budget
	cachermetrics.Register()
	// Package slo has this family, and counts runs of events at once.
	legacyregistry.Registerer().Unregister(cachermetrics.DispatchStageDuration)
	counters, err := read.NewMetrics(legacyregistry.Register)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	failures := &failureCounts{}
	for _, c := range []metrics.StableCollector{failures, &panicCollector{panics: b.cache.Panics}, &collector{backends: b, budget: budget, proofs: proofs}, slo.NewCollector(b.watchAccounts)} {
		if err := legacyregistry.CustomRegister(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	front, err := dashboard.Shell()
	if err != nil {
		return nil, err
	}
	recent := encode.NewRecentFrames(shares.WatchFrames)
	r := &readTier{
		backends:  b,
		decorator: &storage.Decorator{Backend: b.of, Altered: kube.Altered, Uncached: kube.UncachedByDefault, Scan: kube.AttributeScanner, Usable: kube.Usable},
		tier:      read.NewTier(read.Config{Metrics: counters, Logger: b.logger, PassedOnElsewhere: b.readOnly, DrainTime: o.drainTime}),
		shares:    shares,
		budget:    budget,
		recent:    recent,
		proofs:    proofs,
		front:     front,
		counters:  counters,
		failures:  failures,
	}
	kube.SurvivePanics(b.cache.Panics)
	r.shared = sync.OnceValue(func() *read.SharedConfig {
		shared := newShared(b, budget, recent, o, proofs)
		shared.Skew = r.skew
		return shared
	})
	return r, nil
}

// newShared is called when the first route is made: feature gates are set by then.
func newShared(b *backends, budget *encode.Budget, recent *encode.RecentFrames, o watchOptions, proofs *transcode.Proofs) *read.SharedConfig {
	gate, watches := utilfeature.DefaultFeatureGate, o.compression
	if watches == read.CompressWatchLists && !gate.Enabled(features.WatchListCompression) {
		watches = read.CompressRequestedWatches
	}
	var depth func() int
	if b.readOnly {
		depth = b.depth
	}
	return &read.SharedConfig{
		Budget: budget, RecentFrames: recent, Proofs: proofs, Accounts: b.watchAccounts,
		Compress: gate.Enabled(features.APIResponseCompression), CompressWatches: watches, MinTimeout: o.minTimeout,
		BoundedStaleness: b.maxStaleness > 0, Depth: depth, Panics: b.cache.Panics,
	}
}

// releaseTransient drops segments and frames that are kept only for current readers.
func (r *readTier) releaseTransient() {
	r.budget.ReleaseTransient()
	r.recent.Release()
}

// forgetResources drops the accounts of resources that are gone, and of their
// subresources.
func (r *readTier) forgetResources(gone map[schema.GroupResource]bool) {
	isGone := func(resource string) bool {
		gr := schema.ParseGroupResource(resource)
		gr.Resource, _, _ = strings.Cut(gr.Resource, "/")
		return gone[gr]
	}
	r.readAccounts.Forget(isGone)
	r.backends.watchAccounts.Forget(isGone)
}

// hooks returns the points at which the tier replaces parts of Kubernetes' server.
func (r *readTier) hooks() kube.Hooks {
	return kube.Hooks{
		Storage:   r.decorator.Decorate,
		Stored:    r.decorator.Store,
		Reads:     r.tier.Wrap,
		Front:     r.front,
		Protocols: useProtocols, CustomResources: r.customResources(),
		Logger: r.backends.logger,
		Ready:  r.ready(),
		Panics: r.backends.cache.Panics, Failed: r.failures.add,
	}
}

// useProtocols makes an http.Server speak HTTP/1.1 and HTTP/2 by our own servers.
func useProtocols(s *http.Server, p kube.Protocols) error {
	if h1.Configure(s); p.Streams == 0 {
		return nil
	}
	return h2.New(h2.Config{MaxConcurrentStreams: uint32(p.Streams), Inline: p.Inline}).Configure(s)
}

// customResources configures the server of custom resources.
func (r *readTier) customResources() crd.Config {
	return crd.Config{
		CompiledBytes: r.shares.CompiledSchemas, ConvertedBytes: r.shares.ConvertedObjects,
		Logger: r.backends.logger, Route: r.route, Stored: r.decorator.CountKeys, Gone: r.forgetResources,
	}
}

// ready are the tier's checks of /readyz.
func (r *readTier) ready() []healthz.HealthChecker {
	return []healthz.HealthChecker{
		healthz.NamedCheck("millrace-feed", func(*http.Request) error { return r.backends.healthy() }),
		healthz.NamedCheck("millrace-cache", func(*http.Request) error { return r.backends.checkCaches() }),
	}
}

// watchOptions are the flags that concern watches.
type watchOptions struct {
	minTimeout time.Duration
	// drainTime is read.Config.DrainTime.
	drainTime   time.Duration
	compression read.WatchCompression
}

// route completes a route's configuration with what all routes share, and makes it.
func (r *readTier) route(cfg read.RouteConfig) (*read.Route, error) {
	cfg.Shared = r.shared()
	return read.NewRoute(cfg)
}

// routeSource is a server as the tier needs it: kube.Server or kube.Replica.
type routeSource interface {
	Routes() []kube.Route
	CustomRoute(schema.GroupVersionResource) *read.Route
	CustomResources() report.CRDsReport
	definitionSource
	Authorizer() authorizer.UnconditionalAuthorizer
	Handle(prefix string, h http.Handler)
}

// tablesOf returns the tables of a route's kind. It returns nil for kinds that tables do not
// describe, and if nothing is to be transcoded.
func (r *readTier) tablesOf(tables *transcode.Tables, route *kube.Route) *transcode.Kind {
	if r.proofs == nil {
		return nil
	}
	kind, err := tables.Kind(route.Scheme, route.Kind)
	if err != nil {
		r.backends.logger.Debug("Objects of a kind are always encoded by Kubernetes.", "kind", route.Kind.String(), "reason", err.Error())
		return nil
	}
	return kind
}

// setRoutes gives the tier a route for every installed resource that is stored, and
// the finder of the routes of custom resources. It also installs the reports.
func (r *readTier) setRoutes(server routeSource) error {
	hubs := map[*cache.Resource]*watch.Hub{}
	tables := transcode.NewTables()
	var routes []*read.Route
	for _, route := range server.Routes() {
		s := r.decorator.Store(route.Stored)
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
		if r.verbatim != nil {
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
	r.tier.SetRoutes(routes)
	r.tier.SetFinder(server.CustomRoute)
	r.tier.SetAuthorizer(server.Authorizer())
	server.Handle(dashboard.Prefix, dashboard.Handler(r.reportSource(server)))
	if err := legacyregistry.CustomRegister(&definitionCollector{source: server}); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}
