package kube

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/utils/clock"

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
	// fairness.
	Reads func(next http.Handler) http.Handler
	// Ready are added to /readyz.
	Ready []healthz.HealthChecker
}

// Server is the chain of aggregator, kube-apiserver and apiextensions.
type Server struct {
	aggregator *aggregatorapiserver.APIAggregator
}

// Build makes a server out of options that were applied. It opens storage but
// serves nothing before Run.
func Build(ctx context.Context, o *Options, hooks Hooks) (*Server, error) {
	config, err := o.newConfig(ctx, hooks.informers())
	if err != nil {
		return nil, err
	}
	hook(config, hooks)
	completed, err := config.Complete()
	if err != nil {
		return nil, fmt.Errorf("complete configuration: %w", err)
	}
	aggregator, err := app.CreateServerChain(completed)
	if err != nil {
		return nil, fmt.Errorf("build server: %w", err)
	}
	return &Server{aggregator: aggregator}, nil
}

// informers prepares those of the server itself, nil if they stay as they are.
func (h Hooks) informers() func(informers.SharedInformerFactory) error {
	if h.Storage == nil {
		return nil
	}
	return func(factory informers.SharedInformerFactory) error {
		return useInformers(factory, h.Stored)
	}
}

// held is how many objects of how many bytes the cache holds of a built-in kind.
func (h Hooks) held(gr schema.GroupResource) (objects, bytes int64, ok bool) {
	s := h.Stored(gr)
	if s == nil || s.Cache().Ready() != nil {
		return 0, 0, false
	}
	snapshot := s.Resource().Snapshot()
	return int64(snapshot.Len()), snapshot.Bytes, true
}

func hook(config *app.Config, hooks Hooks) {
	generic := &config.Aggregator.GenericConfig.Config
	if hooks.Storage != nil {
		kube := config.KubeAPIs.ControlPlane.Generic
		extensions := config.ApiExtensions
		kube.RESTOptionsGetter = decorated{kube.RESTOptionsGetter, hooks.Storage}
		extensions.GenericConfig.RESTOptionsGetter = decorated{extensions.GenericConfig.RESTOptionsGetter, hooks.Storage}
		extensions.ExtraConfig.CRDRESTOptionsGetter = decorated{extensions.ExtraConfig.CRDRESTOptionsGetter, hooks.Storage}
		generic.RESTOptionsGetter = decorated{generic.RESTOptionsGetter, hooks.Storage}
	}
	if hooks.Reads != nil {
		authn := &generic.Authentication
		if authn.Authenticator != nil {
			authn.Authenticator = newCertificateCache(authn.Authenticator, authn.RequestHeaderConfig, clock.RealClock{})
		}
		generic.StorageObjectCountTracker = newListCosts(generic.StorageObjectCountTracker, hooks.held)
		build := generic.BuildHandlerChainFunc
		generic.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
			return build(hooks.Reads(api), c)
		}
	}
	generic.AddReadyzChecks(hooks.Ready...)
}

// decorated gives every resource our storage. It is the one place where each
// stored resource introduces itself.
type decorated struct {
	generic.RESTOptionsGetter
	storage generic.StorageDecorator
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (d decorated) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := d.RESTOptionsGetter.GetRESTOptions(gr, example)
	options.Decorator = d.storage
	return options, err
}

// Run serves until the context ends and requests in flight are done.
func (s *Server) Run(ctx context.Context) error {
	prepared, err := s.aggregator.PrepareRun()
	if err != nil {
		return fmt.Errorf("prepare server: %w", err)
	}
	if err := prepared.Run(ctx); err != nil {
		return fmt.Errorf("run server: %w", err)
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

// WaitReady returns when /readyz says ok, or with the context's error.
func (s *Server) WaitReady(ctx context.Context) error {
	config := rest.CopyConfig(s.aggregator.GenericAPIServer.LoopbackClientConfig)
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
