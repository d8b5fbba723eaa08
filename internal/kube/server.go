package kube

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/crd"
	"github.com/millrace/millrace/internal/read"
	"github.com/millrace/millrace/internal/slo"
	"github.com/millrace/millrace/internal/storage"
)

// Hooks are where Millrace takes over. A nil hook leaves Kubernetes' own.
type Hooks struct {
	// Storage makes the storage of every stored resource.
	Storage generic.StorageDecorator
	// Stored returns what Storage made for a built-in kind, nil if there is none.
	// It is needed with the others, and called when the server runs.
	Stored func(schema.GroupResource) *storage.Store
	// Reads wraps the handlers behind authentication, authorization, audit and
	// fairness. It is needed with Storage.
	Reads func(next http.Handler) http.Handler
	// Protocols prepares a server for HTTP/1.1 and HTTP/2.
	Protocols func(*http.Server, Protocols) error
	// CustomResources configures their server, which is ours if there is Storage.
	CustomResources crd.Config
	// Front wraps all that is served, before anybody has said who they are.
	Front func(next http.Handler) http.Handler
	// Ready are added to /readyz.
	Ready []healthz.HealthChecker
}

// Protocols is what HTTP is served by.
type Protocols struct {
	// Streams is how many a connection of HTTP/2 may have, 0 without HTTP/2.
	Streams int
	// Inline returns a request that the server's handler answers without waiting for
	// anything, made of the one that it is given; nil for all others.
	Inline func(*http.Request) *http.Request
}

// Server is the chain of aggregator, kube-apiserver and apiextensions.
type Server struct {
	aggregator *aggregatorapiserver.APIAggregator
	front      *frontServer // nil for Kubernetes' own HTTP server
	// inline is that of Protocols.
	inline func(*http.Request) *http.Request
	// custom serves custom resources, documents what there is to be served. Both are
	// nil in the stock server.
	custom    *crd.Server
	documents *documents
	// builtInGroups are Kubernetes' groups: its router lets nothing in them through to custom
	// resources.
	builtInGroups map[string]bool
}

// Build makes a server out of options that were applied. It opens storage but
// serves nothing before Run.
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
		if s.front, err = s.useFrontServer(hooks.Protocols); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// CustomRoute finds the route of a custom resource, nil if there is none, another
// server serves its version, or its group is Kubernetes' own. It is a read.Finder,
// and there if there is Storage.
func (s *Server) CustomRoute(gvr schema.GroupVersionResource) *read.Route {
	if s.builtInGroups[gvr.Group] || s.documents.discovery.Services().Proxied(gvr.GroupVersion()) {
		return nil
	}
	return s.custom.Route(gvr)
}

// informers prepares those of the server itself, nil if they stay as they are.
func (h Hooks) informers() func(informers.SharedInformerFactory) error {
	if h.Storage == nil {
		return nil
	}
	return func(factory informers.SharedInformerFactory) error {
		return setStoredInformers(factory, h.Stored)
	}
}

// cachedSize is how many objects of how many bytes the cache holds of a built-in kind.
func (h Hooks) cachedSize(gr schema.GroupResource) (objects, bytes int64, ok bool) {
	s := h.Stored(gr)
	if s == nil || s.Cache().Ready() != nil {
		return 0, 0, false
	}
	snapshot := s.Resource().Snapshot()
	return int64(snapshot.Len()), snapshot.Bytes, true
}

// customStats is how many objects there are of a custom resource.
func (s *Server) customStats(gr schema.GroupResource) (apistorage.Stats, bool) {
	if s.custom == nil {
		return apistorage.Stats{}, false
	}
	return s.custom.Stats(gr)
}

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
		chain := chainBuilder{build: generic.BuildHandlerChainFunc}
		if s.documents.ownManager && !asksOthers {
			chain.settle = s.documents.discovery.Settle
		}
		generic.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
			built := chain.chain(hooks.Reads(hideTask(s.documents.wrap(api), c)), c)
			s.inline = built.settleInline
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

// Handle serves all below a prefix, which ends with a slash, as the aggregator
// serves /metrics: behind authentication and authorization, where RBAC names it as
// nonResourceURLs. The list of paths at / stays as Kubernetes has it.
func (s *Server) Handle(prefix string, h http.Handler) {
	mux := s.aggregator.GenericAPIServer.Handler.NonGoRestfulMux
	mux.UnlistedHandlePrefix(prefix, h)
	mux.UnlistedHandle(strings.TrimSuffix(prefix, "/"), h)
}

// Authorizer is what decides on requests.
func (s *Server) Authorizer() authorizer.Authorizer { return s.aggregator.GenericAPIServer.Authorizer }

// CustomResources tells what definitions cost. It is there if there is Storage.
func (s *Server) CustomResources() slo.CRDsReport { return s.custom.Costs() }

// storageDecorator gives every resource our storage. It is the one place where each
// stored resource introduces itself.
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

// Run serves until the context ends and requests in flight are done, or etcd has not
// answered for lostPatience since (ErrEtcdLost).
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

// Addr is where the server listens.
func (s *Server) Addr() string {
	return s.aggregator.GenericAPIServer.SecureServingInfo.Listener.Addr().String()
}

// chain are the servers from the outermost to the innermost.
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

// Loopback is how this process asks itself, over the network as everybody.
func (s *Server) Loopback() *rest.Config {
	return rest.CopyConfig(s.aggregator.GenericAPIServer.LoopbackClientConfig)
}

// WaitReady returns when /readyz says ok, or with the context's error.
func (s *Server) WaitReady(ctx context.Context) error {
	config := s.Loopback()
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

// health returns the status with which a check answers.
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
