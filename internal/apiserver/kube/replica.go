package kube

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionsoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	apiservicerest "k8s.io/kube-aggregator/pkg/registry/apiservice/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/tier/storage"
)

// ReplicaConfig is what the caller puts around and in place of Kubernetes' parts. All
// fields are needed.
type ReplicaConfig struct {
	// Served are the versions that the upstream serves. Other versions get no routes.
	Served []schema.GroupVersion
	// Storage makes the storage of each resource.
	Storage generic.StorageDecorator
	// Stored finds the storage of a built-in resource.
	Stored func(schema.GroupResource) *storage.Store
	// CustomResources configures the server of custom resources.
	CustomResources crd.Config
	// Requests answers all requests but those for Local paths, with the user that
	// Authenticator found.
	Requests http.Handler
	// Authenticator wraps the authenticator that asks the upstream, for Requests. It must
	// accept every request, because Requests decides about them.
	Authenticator func(authenticator.Request) authenticator.Request
	// Reviews ask the upstream about users and rights, for Requests and for the replica
	// itself.
	Reviews Reviews
	// Outermost wraps all filters of Requests. It must hide headers of impersonation from them.
	Outermost func(http.Handler) http.Handler
	// Local reports whether a path belongs to the replica itself, such as /readyz.
	Local func(path string) bool
	// Front, Protocols and Ready mean the same as in Hooks.
	Front     func(http.Handler) http.Handler
	Protocols func(*http.Server, Protocols) error
	Ready     []healthz.HealthChecker
	// Panics and Failed mean the same as in Hooks.
	Panics *panics.Counter
	Failed func(group, resource string)
}

// Replica is a server that answers reads for another API server, and never writes. It has
// Kubernetes' storages without their handlers. Of Kubernetes' controllers it only runs the
// one of priority and fairness, if a flag asks for that.
//
//	request ─► frontServer ─┬─► filters ─► Requests: from bytes, or passed on
//	                        └─► filters ─► /readyz, /metrics, reports   (Local paths)
type Replica struct {
	generic *genericapiserver.GenericAPIServer
	front   *frontServer
	custom  *crd.Server
	routes  []Route
}

// BuildReplica makes a replica from applied options. It serves nothing before Run.
func BuildReplica(o *ReplicaOptions, cfg ReplicaConfig) (*Replica, error) {
	config := genericapiserver.NewConfig(legacyscheme.Codecs)
	if err := o.applyTo(config, cfg.Reviews); err != nil {
		return nil, err
	}
	config.LongRunningFunc = filters.BasicLongRunningRequestCheck(
		sets.NewString("watch", "proxy"), sets.NewString("attach", "exec", "proxy", "log", "portforward"))
	config.AddReadyzChecks(cfg.Ready...)
	if authn := &config.Authentication; authn.Authenticator != nil {
		authn.Authenticator = newCertificateCache(authn.Authenticator, authn.RequestHeaderConfig, clock.RealClock{})
	}
	r := &Replica{}
	if err := r.install(o, config, cfg); err != nil {
		return nil, err
	}
	serving := *config
	serving.BuildHandlerChainFunc = cfg.chain
	priorities, err := o.useFairness(&serving)
	if err != nil {
		return nil, err
	}
	serving.StorageObjectCountTracker = newListCosts(config.StorageObjectCountTracker, Hooks{Stored: cfg.Stored}.cachedSize, r.custom.Stats)
	if r.generic, err = serving.Complete(priorities).New("millrace-replica", genericapiserver.NewEmptyDelegate()); err != nil {
		return nil, fmt.Errorf("build server: %w", err)
	}
	r.front, err = useFrontServer(r.generic, cfg.Protocols, nil)
	return r, err
}

// chain builds two chains of Kubernetes' filters. One is the usual chain, for local paths.
// The other is for Requests: it refuses requests for lack of room or time, and not for a
// user's rights. It never acts for another user.
func (cfg ReplicaConfig) chain(api http.Handler, c *genericapiserver.Config) http.Handler {
	local := genericapiserver.DefaultBuildHandlerChain(api, c)
	with := *c
	with.Authentication.Authenticator = cfg.Authenticator(c.Authentication.Authenticator)
	// Requests decides about rights, and tells the audit log about its own decisions only.
	with.Authorization.Authorizer = nil
	filtered := chainBuilder{
		build: genericapiserver.DefaultBuildHandlerChain, guard: Hooks{Panics: cfg.Panics, Failed: cfg.Failed}.guard(),
	}.chain(hideTask(cfg.Requests, &with), &with)
	requests := cfg.Outermost(filtered)
	return cfg.Front(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if cfg.Local(req.URL.Path) {
			local.ServeHTTP(w, req)
			return
		}
		requests.ServeHTTP(w, req)
	}))
}

// install makes the storages of all resources, without handlers.
func (r *Replica) install(o *ReplicaOptions, config *genericapiserver.Config, cfg ReplicaConfig) error {
	source := serverstorage.NewResourceConfig()
	source.EnableVersions(cfg.Served...)
	config.MergedResourceConfig = source
	kept := *config
	factoryConfig := kubeapiserver.NewStorageFactoryConfigEffectiveVersion(config.EffectiveVersion)
	factoryConfig.APIResourceConfig = source
	factoryConfig.DefaultResourceEncoding.SetEffectiveVersion(config.EffectiveVersion)
	etcd := *o.run.Etcd
	etcd.SkipHealthEndpoints, etcd.StorageConfig.CountMetricPollPeriod = true, 0
	factory, err := factoryConfig.Complete(&etcd).New()
	if err != nil {
		return fmt.Errorf("configure storage: %w", err)
	}
	setStoredDecoders(factory)
	if err := etcd.ApplyWithStorageFactoryTo(factory, &kept); err != nil {
		return fmt.Errorf("configure storage: %w", err)
	}
	kept.RESTOptionsGetter = storageDecorator{kept.RESTOptionsGetter, cfg.Storage}
	groups, err := builtInStorages(source, kept.RESTOptionsGetter)
	if err != nil {
		return err
	}
	for i := range groups {
		routes, err := storageRoutes(&groups[i], legacyscheme.Codecs)
		if err != nil {
			return err
		}
		r.routes = append(r.routes, routes...)
	}
	if err := r.addServices(etcd, kept, cfg); err != nil {
		return err
	}
	return r.addCustomResources(etcd, kept, cfg)
}

// addServices makes the storage of APIServices.
//
// Upstream: k8s.io/kubernetes/pkg/controlplane/apiserver.CreateAggregatorConfig; compare at each upgrade.
func (r *Replica) addServices(etcd genericoptions.EtcdOptions, config genericapiserver.Config, cfg ReplicaConfig) error {
	etcd.StorageConfig.Codec = aggregatorscheme.Codecs.LegacyCodec(apiregistrationv1.SchemeGroupVersion, apiregistrationv1beta1.SchemeGroupVersion)
	etcd.StorageConfig.EncodeVersioner = runtime.NewMultiGroupVersioner(apiregistrationv1.SchemeGroupVersion, schema.GroupKind{Group: apiregistrationv1beta1.GroupName})
	if err := etcd.ApplyTo(&config); err != nil {
		return fmt.Errorf("configure storage of APIServices: %w", err)
	}
	group := apiservicerest.NewRESTStorage(config.MergedResourceConfig, storageDecorator{config.RESTOptionsGetter, cfg.Storage}, false)
	routes, err := storageRoutes(&group, aggregatorscheme.Codecs)
	r.routes = append(r.routes, routes...)
	return err
}

// addCustomResources makes the server of custom resources, which is never served. Its
// post-start hooks, which run the controllers of definitions, do not run.
//
// Upstream: k8s.io/kubernetes/pkg/controlplane/apiserver.CreateAPIExtensionsConfig; compare at each upgrade.
func (r *Replica) addCustomResources(etcd genericoptions.EtcdOptions, config genericapiserver.Config, cfg ReplicaConfig) error {
	etcd.StorageConfig.Codec = apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1beta1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion)
	etcd.StorageConfig.EncodeVersioner = runtime.NewMultiGroupVersioner(apiextensionsv1beta1.SchemeGroupVersion, schema.GroupKind{Group: apiextensionsv1beta1.GroupName})
	transformers := config.ResourceTransformers
	if err := etcd.ApplyTo(&config); err != nil {
		return fmt.Errorf("configure storage of definitions: %w", err)
	}
	config.RESTOptionsGetter = storageDecorator{config.RESTOptionsGetter, cfg.Storage}
	config.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	// Kubernetes installs no group without the schemas of its types.
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, openapinamer.NewDefinitionNamer(apiextensionsapiserver.Scheme))
	config.SkipOpenAPIInstallation = true
	extensions := apiextensionsapiserver.Config{
		GenericConfig: &genericapiserver.RecommendedConfig{Config: config},
		ExtraConfig: apiextensionsapiserver.ExtraConfig{
			CRDRESTOptionsGetter: storageDecorator{apiextensionsoptions.NewCRDRESTOptionsGetter(etcd, transformers, config.StorageObjectCountTracker), cfg.Storage},
		},
	}
	var err error
	if r.custom, err = crd.New(extensions.Complete(), genericapiserver.NewEmptyDelegate(), cfg.CustomResources); err != nil {
		return fmt.Errorf("make server of custom resources: %w", err)
	}
	r.routes = append(r.routes, installedRoutes(r.custom.Generic, apiextensionsapiserver.Codecs, apiextensionsapiserver.Scheme)...)
	return nil
}

// Routes lists the built-in resources that the upstream may serve.
func (r *Replica) Routes() []Route { return r.routes }

// CustomRoute finds the route of a custom resource. It returns nil if there is none, and
// for resources that a webhook converts. It implements read.Finder.
func (r *Replica) CustomRoute(gvr schema.GroupVersionResource) *read.Route {
	row := r.custom.Catalog().Find(gvr.Group, gvr.Resource)
	if row == nil || row.Webhook {
		return nil
	}
	return r.custom.Route(gvr)
}

// CustomVersion returns the served version of a custom resource that discovery lists first. It
// returns "" if there is none.
func (r *Replica) CustomVersion(gr schema.GroupResource) (preferred string) {
	row := r.custom.Catalog().Find(gr.Group, gr.Resource)
	if row == nil {
		return ""
	}
	for _, v := range row.Versions {
		if v.Served && (preferred == "" || version.CompareKubeAwareVersionStrings(v.Name, preferred) > 0) {
			preferred = v.Name
		}
	}
	return preferred
}

// CustomSpec returns a hash of the spec of a custom resource's definition. It returns 0 if there is
// no definition.
func (r *Replica) CustomSpec(gr schema.GroupResource) uint64 {
	if row := r.custom.Catalog().Find(gr.Group, gr.Resource); row != nil {
		return row.Spec
	}
	return 0
}

// HaveSameSchema reports whether versions a and b of a custom resource have the same schema, and no
// webhook converts between them. API servers prune and default what they send by the schema of the
// requested version, so objects of another version may lack fields.
func (r *Replica) HaveSameSchema(gr schema.GroupResource, a, b string) bool {
	row := r.custom.Catalog().Find(gr.Group, gr.Resource)
	if row == nil || row.Webhook {
		return false
	}
	versionA, versionB := row.Version(a), row.Version(b)
	return versionA != nil && versionB != nil && versionA.Schema == versionB.Schema
}

// ServesCustom reports whether a group version is served out of definitions.
func (r *Replica) ServesCustom(gv schema.GroupVersion) bool {
	return slices.ContainsFunc(r.custom.Catalog().Group(gv.Group), func(row *crd.Definition) bool { return row.Served(gv.Version) })
}

// Authorizer returns the authorizer of local paths. It asks the upstream about all but the
// paths that are open to everybody.
func (r *Replica) Authorizer() authorizer.UnconditionalAuthorizer { return r.generic.Authorizer }

// CustomResources reports what definitions cost.
func (r *Replica) CustomResources() serverreport.CRDsReport { return r.custom.Costs() }

// UnreadableDefinitions does what Server.UnreadableDefinitions does.
func (r *Replica) UnreadableDefinitions() map[string]error { return r.custom.Catalog().Unreadable() }

// Handle serves all paths below a prefix, as Server.Handle does.
func (r *Replica) Handle(prefix string, h http.Handler) {
	mux := r.generic.Handler.NonGoRestfulMux
	mux.UnlistedHandlePrefix(prefix, h)
	mux.UnlistedHandle(strings.TrimSuffix(prefix, "/"), h)
}

// WaitReady returns when /readyz succeeds, or with the context's error.
func (r *Replica) WaitReady(ctx context.Context) error {
	return waitReady(ctx, r.Loopback())
}

// Loopback returns a client configuration for this server.
func (r *Replica) Loopback() *rest.Config { return rest.CopyConfig(r.generic.LoopbackClientConfig) }

// Run serves until the context ends or listening fails, and all requests are done.
func (r *Replica) Run(ctx context.Context) error {
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.front.onFailure = cancel
	following := make(chan struct{})
	go func() {
		defer close(following)
		r.custom.Follow(running)
	}()
	err := r.generic.PrepareRun().RunWithContext(running)
	if err == nil && ctx.Err() == nil {
		err = context.Cause(running)
	}
	cancel(nil)
	<-following
	if err != nil {
		return fmt.Errorf("run server: %w", err)
	}
	return nil
}
