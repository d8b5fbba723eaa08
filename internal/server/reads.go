package server

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"github.com/millrace/millrace/internal/slo"
	"github.com/millrace/millrace/internal/storage"
	"github.com/millrace/millrace/internal/watch"
)

// readTier is the storage and the handler that take Kubernetes' place.
type readTier struct {
	backends  *backends
	decorator *storage.Decorator
	tier      *read.Tier
	budget    *encode.Budget
	// recent and watches are what all routes share.
	recent  *encode.Recent
	watches watchOptions
	// lists are the accounts of GETs and LISTs.
	lists *slo.Lists
	// front serves the page that shows the reports.
	front func(http.Handler) http.Handler
}

func newReadTier(b *backends, budget *encode.Budget, o watchOptions) (*readTier, error) {
	cachermetrics.Register()
	counters, err := read.NewMetrics(legacyregistry.Register)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	for _, c := range []metrics.StableCollector{&collector{backends: b, budget: budget}, slo.NewCollector(b.accounts)} {
		if err := legacyregistry.CustomRegister(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	front, err := dashboard.Shell()
	if err != nil {
		return nil, err
	}
	return &readTier{
		backends:  b,
		decorator: &storage.Decorator{Backend: b.get, Altered: kube.Altered, Uncached: kube.UncachedByDefault, Scan: kube.AttributeScanner},
		tier:      read.NewTier(counters),
		budget:    budget,
		recent:    encode.NewRecent(recentFrames),
		watches:   o,
		front:     front,
	}, nil
}

// rest lets go of what is kept for those who read right now.
func (r *readTier) rest() {
	r.budget.ReleaseTransient()
	r.recent.Release()
}

// forget drops the accounts of reads of resources that are gone.
func (r *readTier) forget(gone map[schema.GroupResource]bool) {
	named := func(resource string) bool {
		gr := schema.ParseGroupResource(resource)
		gr.Resource, _, _ = strings.Cut(gr.Resource, "/") // with it go its subresources
		return gone[gr]
	}
	r.lists.Forget(named)
	r.backends.accounts.Forget(named)
}

func (r *readTier) hooks() kube.Hooks {
	return kube.Hooks{
		Storage: r.decorator.Decorate,
		Stored:  r.decorator.Store,
		Reads:   r.tier.Wrap,
		Front:   r.front,
		Protocols: func(s *http.Server, p kube.Protocols) error {
			if h1.Configure(s); p.Streams == 0 {
				return nil
			}
			return h2.New(h2.Config{MaxConcurrentStreams: uint32(p.Streams), Inline: p.Inline}).Configure(s)
		},
		CustomResources: crd.Config{Logger: r.backends.logger, Route: r.route, Stored: r.decorator.Stored, Gone: r.forget},
		Ready: []healthz.HealthChecker{healthz.NamedCheck("millrace-feed", func(*http.Request) error {
			return r.backends.healthy()
		})},
	}
}

// watchOptions are the flags that watches obey.
type watchOptions struct {
	minTimeout time.Duration
	compress   bool
}

// recentFrames are the bytes of watch events that are kept for who is a moment
// late.
const recentFrames = 32 << 20

// route makes a route with what all of them share.
func (r *readTier) route(cfg read.RouteConfig) (*read.Route, error) {
	cfg.Accounts = r.backends.accounts
	cfg.Budget, cfg.Recent, cfg.MinTimeout = r.budget, r.recent, r.watches.minTimeout
	cfg.Compress = utilfeature.DefaultFeatureGate.Enabled(features.APIResponseCompression)
	cfg.CompressWatches = cfg.Compress && r.watches.compress
	return read.NewRoute(cfg)
}

// serve gives the tier every installed resource that is stored, and custom ones as
// they come and go, and people the reports.
func (r *readTier) serve(server *kube.Server) error {
	hubs := map[*cache.Resource]*watch.Hub{}
	var served []*read.Route
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
		made, err := r.route(read.RouteConfig{
			Resource: route.Resource, Kind: route.Kind, Namespaced: route.Namespaced,
			Gets: route.Gets, Lists: route.Lists, Watches: route.Watches, Serializer: route.Serializer,
			Hub: hub, Source: s, Convertor: route.Convertor, Table: route.Table,
			Warning: route.Warning, RemovedRelease: route.RemovedRelease,
			// Definitions are large, and only installers and some operators read them.
			Rare: route.Stored == apiextensions.Resource("customresourcedefinitions"),
		})
		if err != nil {
			return err
		}
		served = append(served, made)
	}
	r.tier.SetRoutes(served)
	r.tier.SetFinder(server.CustomRoute)
	r.tier.SetAuthorizer(server.Authorizer())
	server.Handle(dashboard.Prefix, dashboard.Handler(r.source(server)))
	return nil
}
