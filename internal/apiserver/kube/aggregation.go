package kube

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	apiregistration "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/tier/storage"
)

// aggregation makes the aggregator. Unlike upstream, definitions of custom resources come
// from the catalog of package crd and not from an informer.
//
// Upstream: k8s.io/kubernetes/pkg/controlplane/apiserver.CreateAggregatorServer; compare at each upgrade.
type aggregation struct {
	config aggregatorapiserver.CompletedConfig
	next   genericapiserver.DelegationTarget
	// catalog is nil if the API of definitions is disabled.
	catalog *crd.Catalog
	// storeOf is Hooks.Stored.
	storeOf func(schema.GroupResource) *storage.Store
}

func (a *aggregation) create() (*aggregatorapiserver.APIAggregator, error) {
	server, err := a.config.NewWithDelegate(a.next)
	if err != nil {
		return nil, err
	}
	services := server.APIRegistrationInformers.Apiregistration().V1().APIServices()
	if err := a.registerWithPeers(server.GenericAPIServer, services); err != nil {
		return nil, err
	}
	client, err := apiregistration.NewForConfig(a.config.GenericConfig.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("make loopback client: %w", err)
	}
	registering := autoregister.NewAutoRegisterController(services, client)
	priorities := apiPriorities()
	builtIn := builtInServices(a.next, priorities)
	for _, service := range builtIn {
		registering.AddAPIServiceToSyncOnStart(service)
	}
	if manager := a.config.GenericConfig.AggregatedDiscoveryGroupManager; manager != nil {
		for gv, p := range priorities {
			manager.SetGroupVersionPriority(metav1.GroupVersion(gv), int(p.Group), int(p.Version))
		}
	}
	if err := server.GenericAPIServer.AddPostStartHook("kube-apiserver-autoregistration", a.registration(registering)); err != nil {
		return nil, err
	}
	available, err := newAvailability(builtIn, services)
	if err != nil {
		return nil, err
	}
	return server, server.GenericAPIServer.AddBootSequenceHealthChecks(available)
}

// registerWithPeers tells the proxy between API servers which versions are served here, if
// there is such a proxy. Nothing else uses an informer of definitions.
func (a *aggregation) registerWithPeers(server *genericapiserver.GenericAPIServer, services informers.APIServiceInformer) error {
	proxy := a.config.ExtraConfig.PeerProxy
	if proxy == nil {
		return nil
	}
	definitions := newDefinitionsInformer(a.storeOf)
	if err := proxy.RegisterCRDInformerHandlers(definitions, definedVersions); err != nil {
		return err
	}
	if err := server.AddPostStartHook("millrace-definitions-informer", func(ctx genericapiserver.PostStartHookContext) error {
		go definitions.RunWithContext(ctx)
		return nil
	}); err != nil {
		return err
	}
	return proxy.RegisterAPIServiceInformerHandlers(services.Informer(), aggregatedVersion)
}

// definedVersions returns the versions of a definition.
//
// Upstream: k8s.io/kubernetes/pkg/controlplane/apiserver.crdExtractor; compare at each upgrade.
func definedVersions(obj any) []schema.GroupVersion {
	full, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil
	}
	var versions []schema.GroupVersion
	for _, v := range full.Spec.Versions {
		versions = append(versions, schema.GroupVersion{Group: full.Spec.Group, Version: v.Name})
	}
	return versions
}

// aggregatedVersion returns the version of an APIService, if an extension API server
// serves it.
//
// Upstream: k8s.io/kubernetes/pkg/controlplane/apiserver.apiServiceExtractor; compare at each upgrade.
func aggregatedVersion(obj any) []schema.GroupVersion {
	service, ok := obj.(*apiregistrationv1.APIService)
	if !ok || service.Spec.Service == nil {
		return nil
	}
	return []schema.GroupVersion{{Group: service.Spec.Group, Version: service.Spec.Version}}
}

// registration returns a hook that keeps an APIService for each version that is served
// here. Its controller deletes the APIServices that nothing has registered when it starts.
// So the controller starts once all definitions are known.
func (a *aggregation) registration(registering interface {
	crd.APIServices
	Run(workers int, stop <-chan struct{})
}) genericapiserver.PostStartHookFunc {
	const workers = 5
	if a.catalog == nil {
		return func(ctx genericapiserver.PostStartHookContext) error {
			go registering.Run(workers, ctx.Done())
			return nil
		}
	}
	custom := crd.NewRegistration(a.catalog, registering)
	return func(ctx genericapiserver.PostStartHookContext) error {
		go custom.Run(ctx)
		go runAfter(ctx, custom.Complete(), func() { registering.Run(workers, ctx.Done()) })
		return nil
	}
}

func runAfter(ctx context.Context, ready <-chan struct{}, run func()) {
	select {
	case <-ready:
		run()
	case <-ctx.Done():
	}
}

// builtInServices returns the APIServices of the versions in priorities that a server has
// installed.
//
// Upstream: k8s.io/kubernetes/pkg/controlplane/apiserver.apiServicesToRegister; compare at each upgrade.
func builtInServices(server genericapiserver.DelegationTarget, priorities map[schema.GroupVersion]priority) []*apiregistrationv1.APIService {
	var services []*apiregistrationv1.APIService
	for _, path := range server.ListedPaths() {
		gv, ok := groupVersion(path)
		if !ok || gv.Group == "" && path != "/api/v1" || strings.HasSuffix(path, "/") {
			continue
		}
		p, known := priorities[gv]
		if !known {
			continue // as upstream: it may belong to a custom resource
		}
		services = append(services, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: p.Group, VersionPriority: p.Version,
			},
		})
	}
	return services
}

// availability is a health check: it succeeds once each built-in version has been
// available.
//
// Upstream: k8s.io/kubernetes/pkg/controlplane/apiserver.makeAPIServiceAvailableHealthCheck; compare at each upgrade.
type availability struct {
	mu struct {
		sync.Mutex
		missing map[string]bool
	}
}

func newAvailability(expected []*apiregistrationv1.APIService, services informers.APIServiceInformer) (healthz.HealthChecker, error) {
	a := &availability{}
	a.mu.missing = map[string]bool{}
	for _, service := range expected {
		a.mu.missing[service.Name] = true
	}
	_, err := services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    a.noteAvailable,
		UpdateFunc: func(_, now any) { a.noteAvailable(now) },
	})
	return healthz.NamedCheck("autoregister-completion", a.check), err
}

func (a *availability) noteAvailable(obj any) {
	service, ok := obj.(*apiregistrationv1.APIService)
	if !ok || !helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.mu.missing, service.Name)
}

func (a *availability) check(*http.Request) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.mu.missing) > 0 {
		return fmt.Errorf("missing APIService: %v", slices.Sorted(maps.Keys(a.mu.missing)))
	}
	return nil
}
