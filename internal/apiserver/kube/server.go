package kube

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	apistorage "k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/tier/storage"
)

// Hooks are the places where Millrace takes over. A nil hook leaves Kubernetes' own
// implementation.
type Hooks struct {
	// Storage makes the storage of each resource.
	Storage generic.StorageDecorator
	// Stored returns the store that Storage made for a built-in resource. It returns nil
	// if there is none. It is required with Storage, and not called before the server runs.
	Stored func(schema.GroupResource) *storage.Store
	// Reads wraps the handlers that follow authentication, authorization, audit and
	// fairness. It requires Storage.
	Reads func(next http.Handler) http.Handler
	// Protocols prepares an http.Server for HTTP/1.1 and HTTP/2.
	Protocols func(*http.Server, Protocols) error
	// CustomResources configures the server of custom resources, which is ours if Storage
	// is set.
	CustomResources crd.Config
	// Front wraps everything that is served, in front of authentication.
	Front func(next http.Handler) http.Handler
	// Ready are checks that are added to /readyz.
	Ready []healthz.HealthChecker
	// Logger receives documents that cannot be built, and steps after the start that have
	// failed. Nil means slog.Default.
	Logger *slog.Logger
	// Panics counts panics of request handlers and of builders of documents. If it is nil, a
	// panic of a request handler does what it does in Kubernetes.
	Panics *panics.Counter
	// Failed is called for each answer with 500 from Kubernetes' filters or what follows them.
	// Both names are empty if the request was for no resource. It is required with Panics.
	Failed func(group, resource string)
}

// guard returns the guard of requests, or nil.
func (h Hooks) guard() *requestGuard {
	if h.Panics == nil {
		return nil
	}
	return &requestGuard{counter: h.Panics, failed: h.Failed}
}

// Protocols says how HTTP is to be served.
type Protocols struct {
	// Streams is the number of HTTP/2 streams per connection; 0 disables HTTP/2.
	Streams int
	// Inline returns nil for a request that may block the server's handler. For any other
	// it returns a copy that the handler answers without blocking. Inline may be nil. See
	// h2.Config.Inline.
	Inline func(*http.Request) *http.Request
}

// Server is the chain of aggregator, kube-apiserver and the server of custom resources.
type Server struct {
	aggregator *aggregatorapiserver.APIAggregator
	front      *frontServer // nil for Kubernetes' own HTTP server
	// inline is Protocols.Inline.
	inline func(*http.Request) *http.Request
	// custom serves custom resources; documents serves discovery and OpenAPI. Both are
	// nil in the stock server.
	custom    *crd.Server
	documents *documents
	// builtInGroups are the API groups of Kubernetes itself. Kubernetes' router passes no
	// request in them on to custom resources. It is nil in the stock server.
	builtInGroups map[string]bool
}

// Build makes a server from applied options. It opens storage, but serves nothing before
// Run.
func Build(ctx context.Context, o *Options, hooks Hooks) (*Server, error) {
	config, err := o.newConfig(ctx, hooks.informers())
	if err != nil {
		return nil, err
	}
	s := &Server{}
	if hooks.Storage != nil {
		if s.documents, err = newDocuments(config); err != nil {
			return nil, err
		}
	}
	s.hook(config, hooks, o.asksOtherServers())
	completed, err := config.Complete()
	if err != nil {
		return nil, fmt.Errorf("complete configuration: %w", err)
	}
	if hooks.Storage == nil {
		s.aggregator, err = app.CreateServerChain(completed)
	} else {
		err = s.createChain(completed, hooks)
	}
	if err != nil {
		return nil, fmt.Errorf("build server: %w", err)
	}
	if hooks.Protocols != nil {
		if s.front, err = useFrontServer(s.aggregator.GenericAPIServer, hooks.Protocols, s.inline); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// CustomRoute finds the route of a custom resource. It returns nil if there is none, if
// another server serves its version, or if its group is Kubernetes' own. It implements
// read.Finder, and requires Hooks.Storage.
func (s *Server) CustomRoute(gvr schema.GroupVersionResource) *read.Route {
	if s.builtInGroups[gvr.Group] || s.documents.discovery.Services().Proxied(gvr.GroupVersion()) {
		return nil
	}
	return s.custom.Route(gvr)
}

// informers returns the function that prepares the informer factory. It returns nil for
// the stock server.
func (h Hooks) informers() func(informers.SharedInformerFactory) error {
	if h.Storage == nil {
		return nil
	}
	return func(factory informers.SharedInformerFactory) error {
		return setStoredInformers(factory, h.Stored)
	}
}

// cachedSize returns the number and the bytes of the objects of a built-in resource in
// the cache. ok is false if the cache does not have the resource.
func (h Hooks) cachedSize(gr schema.GroupResource) (objects, bytes int64, ok bool) {
	s := h.Stored(gr)
	if s == nil || s.Cache().Ready() != nil {
		return 0, 0, false
	}
	snapshot := s.Resource().Snapshot()
	return int64(snapshot.Len()), snapshot.Bytes, true
}

// customStats returns the result of crd.Server.Stats. It returns false before the server of
// custom resources is made.
func (s *Server) customStats(gr schema.GroupResource) (apistorage.Stats, bool) {
	if s.custom == nil {
		return apistorage.Stats{}, false
	}
	return s.custom.Stats(gr)
}

// hook puts the hooks into the configuration of all servers.
func (s *Server) hook(config *app.Config, hooks Hooks, asksOthers bool) {
	generic := &config.Aggregator.GenericConfig.Config
	if hooks.Storage != nil {
		kube := config.KubeAPIs.ControlPlane.Generic
		extensions := config.ApiExtensions
		kube.RESTOptionsGetter = storageDecorator{kube.RESTOptionsGetter, hooks.Storage}
		extensions.GenericConfig.RESTOptionsGetter = storageDecorator{extensions.GenericConfig.RESTOptionsGetter, hooks.Storage}
		extensions.ExtraConfig.CRDRESTOptionsGetter = storageDecorator{extensions.ExtraConfig.CRDRESTOptionsGetter, hooks.Storage}
		generic.RESTOptionsGetter = storageDecorator{generic.RESTOptionsGetter, hooks.Storage}
	}
	if hooks.Reads != nil {
		authn := &generic.Authentication
		if authn.Authenticator != nil {
			authn.Authenticator = newCertificateCache(authn.Authenticator, authn.RequestHeaderConfig, clock.RealClock{})
		}
		generic.StorageObjectCountTracker = newListCosts(generic.StorageObjectCountTracker, hooks.cachedSize, s.customStats)
		chain := chainBuilder{build: generic.BuildHandlerChainFunc, stockFilters: hasStockFilters(config), guard: hooks.guard()}
		if s.documents.ownManager && !asksOthers {
			chain.decideNotModified = s.documents.discovery.DecideNotModified
		}
		generic.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
			built := chain.chain(hooks.Reads(hideTask(s.documents.wrap(api), c)), c)
			s.inline = built.decideInline
			return built
		}
	}
	if hooks.Front != nil {
		build := generic.BuildHandlerChainFunc
		generic.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
			return hooks.Front(build(api, c))
		}
	}
	generic.AddReadyzChecks(hooks.Ready...)
}

// hasStockFilters reports whether the handler chain of a configuration is Kubernetes'
// default. Two settings add a filter to it.
//
// Upstream: k8s.io/kubernetes/pkg/controlplane/apiserver.CreateAggregatorConfig; compare at each upgrade.
func hasStockFilters(config *app.Config) bool {
	gate := utilfeature.DefaultFeatureGate
	holdsWrites := gate.Enabled(features.StorageVersionAPI) && gate.Enabled(features.APIServerIdentity)
	return !holdsWrites && config.KubeAPIs.ControlPlane.Extra.PeerProxy == nil
}

// Handle serves all paths below a prefix, which must end with a slash, as the aggregator
// serves /metrics: after authentication and authorization. RBAC rules name such paths as
// nonResourceURLs. The list of paths at / stays as Kubernetes has it.
func (s *Server) Handle(prefix string, h http.Handler) {
	mux := s.aggregator.GenericAPIServer.Handler.NonGoRestfulMux
	mux.UnlistedHandlePrefix(prefix, h)
	mux.UnlistedHandle(strings.TrimSuffix(prefix, "/"), h)
}

// Authorizer returns the authorizer of the aggregator.
func (s *Server) Authorizer() authorizer.UnconditionalAuthorizer {
	return s.aggregator.GenericAPIServer.Authorizer
}

// CustomResources reports what definitions cost. It requires Hooks.Storage.
func (s *Server) CustomResources() serverreport.CRDsReport { return s.custom.Costs() }

// UnreadableDefinitions returns why stored definitions cannot be read, by key. It requires
// Hooks.Storage.
func (s *Server) UnreadableDefinitions() map[string]error { return s.custom.Catalog().Unreadable() }

// storageDecorator gives our storage to every resource: all of Kubernetes' storages are made
// with options from it.
type storageDecorator struct {
	generic.RESTOptionsGetter
	storage generic.StorageDecorator
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (d storageDecorator) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := d.RESTOptionsGetter.GetRESTOptions(gr, example)
	options.Decorator = d.storage
	return options, err
}

// Run serves until ctx ends or listening fails, and all requests are done. It returns
// ErrEtcdLost if etcd does not answer for etcdLostTimeout while the server shuts down.
func (s *Server) Run(ctx context.Context) error {
	prepared, err := s.aggregator.PrepareRun()
	if err != nil {
		return fmt.Errorf("prepare server: %w", err)
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if s.front != nil {
		s.front.onFailure = cancel
	}
	ended := make(chan error, 1)
	go func() { ended <- prepared.Run(running) }()
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	select {
	case err = <-ended:
	case err = <-s.watchEtcd(watching, running.Done()):
	}
	if err != nil {
		return fmt.Errorf("run server: %w", err)
	}
	if ctx.Err() == nil {
		return context.Cause(running)
	}
	return nil
}

// Addr returns the address on which the server listens.
func (s *Server) Addr() string {
	return s.aggregator.GenericAPIServer.SecureServingInfo.Listener.Addr().String()
}

// chain returns the servers from the outermost to the innermost.
func (s *Server) chain() []*genericapiserver.GenericAPIServer {
	var chain []*genericapiserver.GenericAPIServer
	var next genericapiserver.DelegationTarget = s.aggregator.GenericAPIServer
	for {
		server, ok := next.(*genericapiserver.GenericAPIServer)
		if !ok {
			return chain
		}
		chain = append(chain, server)
		next = server.NextDelegate()
	}
}

// Loopback returns a client configuration for this server. Its requests go over the
// network, as any client's.
func (s *Server) Loopback() *rest.Config {
	return rest.CopyConfig(s.aggregator.GenericAPIServer.LoopbackClientConfig)
}

// WaitReady returns when /readyz succeeds, or with the context's error.
func (s *Server) WaitReady(ctx context.Context) error { return waitReady(ctx, s.Loopback()) }

// waitReady returns when /readyz succeeds, or with the context's error.
func waitReady(ctx context.Context, config *rest.Config) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("make loopback client: %w", err)
	}
	ticker := time.NewTicker(readyPeriod)
	defer ticker.Stop()
	for {
		if ready(ctx, client, config.Host) {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const readyPeriod = 100 * time.Millisecond

func ready(ctx context.Context, client *http.Client, host string) bool {
	code, err := health(ctx, client, host+"/readyz")
	return err == nil && code == http.StatusOK
}

// health returns the status code of a health check.
func health(ctx context.Context, client *http.Client, url string) (code int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, nil
}
