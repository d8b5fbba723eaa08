package crd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/apiserver/crd/definitioncodec"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/tier/storage"
)

// Config configures Server. The zero value is usable.
type Config struct {
	// Logger receives definitions that cannot be read, compiled or written, and requests
	// that fail because of one. Nil means slog.Default.
	Logger *slog.Logger
	// CompiledBytes bounds the estimated memory of compiled schemas. 0 means 64 MiB.
	CompiledBytes int64
	// ConvertedBytes bounds the memory of objects that webhooks have converted. 0 means
	// 64 MiB.
	ConvertedBytes int64
	// Idle is the time after which compiled schemas that are not used are dropped, and
	// converted objects whose stored objects are gone. 0 means 5 minutes.
	Idle time.Duration
	// Clock measures Idle. Nil means the real clock.
	Clock clock.PassiveClock
	// Route completes the configuration of a version's route, which answers reads from
	// stored bytes, and makes the route. Nil leaves all reads to Kubernetes' handlers.
	Route func(read.RouteConfig) (*read.Route, error)
	// Gone is called with resources that were in use, some time after their definitions were
	// deleted. It may be nil.
	Gone func(map[schema.GroupResource]bool)
	// Outdated is called with a resource whose definition is served in another way from now
	// on, or is gone. It must not block. It may be nil.
	Outdated func(schema.GroupResource)
	// Stored returns the number of a resource's objects in etcd, without opening its
	// storage. It may be nil.
	Stored func(ctx context.Context, config *storagebackend.ConfigForResource, resourcePrefix string) (int64, error)
}

const (
	defaultCompiledBytes  = 64 << 20
	defaultConvertedBytes = 64 << 20
	defaultIdle           = 5 * time.Minute
)

// fill sets the defaults.
func (c *Config) fill() {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.CompiledBytes == 0 {
		c.CompiledBytes = defaultCompiledBytes
	}
	if c.ConvertedBytes == 0 {
		c.ConvertedBytes = defaultConvertedBytes
	}
	if c.Idle == 0 {
		c.Idle = defaultIdle
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
}

// Server serves definitions and custom resources.
type Server struct {
	// Generic is Kubernetes' server of the definitions. Requests for custom resources come
	// through it, too.
	Generic *genericapiserver.GenericAPIServer

	cfg      Config
	catalog  *Catalog
	compiled *compiledCache
	// conversions has the objects that webhooks have converted.
	conversions *conversionCache
	// compileLimiter bounds the definitions that are compiled at a time.
	compileLimiter limiter
	// next answers requests that no definition serves.
	next http.Handler

	options         generic.RESTOptionsGetter
	admission       admission.Interface
	authorizer      authorizer.UnconditionalAuthorizer
	converters      *conversion.CRConverterFactory
	scaleSerializer func() runtime.NegotiatedSerializer
	// hasModels says that the server has OpenAPI, and so OpenAPI types for field managers.
	hasModels bool
	// maxBody bounds the body of a request, in bytes.
	maxBody  int64
	timeouts timeouts
	// countObjects is set if metrics count objects. It is known once a version was opened.
	countObjects atomic.Bool

	// mu is taken after servedDefinition.mu and before Catalog.mu.
	mu struct {
		sync.Mutex
		served map[types.UID]*servedDefinition
		// retired are the servedDefinitions of changed definitions that have not ended.
		retired map[*servedDefinition]bool
		// retained are the resources that stay in the cache until their definitions are gone.
		retained map[types.UID]*retainedResource
		// gone are the resources to pass to Config.Gone.
		gone map[schema.GroupResource]bool
		// goneBefore is len(gone) at the previous call of takeGone. delays counts the calls
		// since takeGone last returned gone.
		goneBefore, delays int
	}
}

type timeouts struct{ request, minWatch time.Duration }

// New makes a server. It passes requests that it does not serve on to delegate. The
// storage in config must come from storage.Decorator. New starts nothing: the server
// begins to work with Generic's post-start hooks.
func New(config apiextensionsapiserver.CompletedConfig, delegate genericapiserver.DelegationTarget, cfg Config) (*Server, error) {
	cfg.fill()
	validation.RegisterMetrics()
	server, err := config.GenericConfig.New("apiextensions-apiserver", delegate)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Generic: server, cfg: cfg, next: delegate.UnprotectedHandler(),
		compiled:       newCompiledCache(cfg.CompiledBytes, cfg.Idle, cfg.Clock),
		conversions:    newConversionCache(cfg.ConvertedBytes, cfg.Idle, cfg.Clock),
		compileLimiter: newLimiter(),
		options:        config.ExtraConfig.CRDRESTOptionsGetter, admission: config.GenericConfig.AdmissionControl, authorizer: server.Authorizer,
		maxBody: config.GenericConfig.MaxRequestBodyBytes, scaleSerializer: sync.OnceValue(newScaleSerializer),
		timeouts: timeouts{config.GenericConfig.RequestTimeout, time.Duration(config.GenericConfig.MinRequestTimeout) * time.Second},
	}
	s.mu.served, s.mu.retired = map[types.UID]*servedDefinition{}, map[*servedDefinition]bool{}
	s.mu.retained, s.mu.gone = map[types.UID]*retainedResource{}, map[schema.GroupResource]bool{}
	if s.next == nil {
		s.next = http.NotFoundHandler()
	}
	if s.converters, err = conversion.NewCRConverterFactory(config.ExtraConfig.ServiceResolver, config.ExtraConfig.AuthResolverWrapper); err != nil {
		return nil, err
	}
	if err := s.install(config); err != nil {
		return nil, err
	}
	s.catalog.AddHandler(s.changed)
	h := &handler{server: s}
	server.Handler.NonGoRestfulMux.Handle("/apis", h)
	server.Handler.NonGoRestfulMux.HandlePrefix("/apis/", h)
	server.RegisterDestroyFunc(s.destroy)
	client, err := clientset.NewForConfig(server.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("make loopback client: %w", err)
	}
	conditions := newController(s, statusClient{client.ApiextensionsV1().RESTClient()}, config.ExtraConfig.MasterCount)
	return s, s.addHooks(conditions)
}

// install adds the API of definitions, and makes the catalog and the definitionWrites over
// their storage.
func (s *Server) install(config apiextensionsapiserver.CompletedConfig) error {
	group := genericapiserver.NewDefaultAPIGroupInfo(apiextensions.GroupName, apiextensionsapiserver.Scheme, metav1.ParameterCodec, apiextensionsapiserver.Codecs)
	definitions, err := customresourcedefinition.NewREST(apiextensionsapiserver.Scheme, definitioncodec.RESTOptions{RESTOptionsGetter: config.GenericConfig.RESTOptionsGetter})
	if err != nil {
		return fmt.Errorf("make storage of definitions: %w", err)
	}
	definitions.CreateStrategy = reducedValidation{definitions.CreateStrategy}
	store, ok := definitions.Storage.Storage.(*storage.Store)
	if !ok {
		return fmt.Errorf("make storage of definitions: got a %T", definitions.Storage.Storage)
	}
	// A flag may disable the API of definitions. Definitions that exist are served all the
	// same.
	enabled := config.GenericConfig.MergedResourceConfig.ResourceEnabled(apiextensionsv1.SchemeGroupVersion.WithResource(definitionsName))
	if enabled {
		group.VersionedResourcesStorageMap[apiextensionsv1.SchemeGroupVersion.Version] = map[string]rest.Storage{
			definitionsName: definitions, definitionsName + "/status": customresourcedefinition.NewStatusREST(apiextensionsapiserver.Scheme, definitions),
		}
	}
	if err := s.Generic.InstallAPIGroup(&group); err != nil {
		return err
	}
	s.hasModels = group.StaticOpenAPISpec != nil
	s.catalog = NewCatalog(store, s.cfg.Logger)
	if !enabled || !s.hasModels {
		return nil
	}
	writes, err := s.newDefinitionWrites(definitions, config.GenericConfig.RESTOptionsGetter, group.StaticOpenAPISpec)
	if err != nil {
		return err
	}
	s.Generic.Handler.GoRestfulContainer.Filter(writes.filter)
	return nil
}

// panics returns the counter of panics in foreign code.
func (s *Server) panics() *panics.Counter { return s.catalog.store.Cache().Panics() }

// Catalog returns the rows of all definitions.
func (s *Server) Catalog() *Catalog { return s.catalog }

// addHooks adds the post-start hooks that run the server's goroutines. Their names are
// Kubernetes', because /readyz shows them.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.completedConfig.New; compare at each upgrade.
func (s *Server) addHooks(conditions *controller) error {
	synced := make(chan struct{})
	if err := s.Generic.RegisterMuxAndDiscoveryCompleteSignal("CRDInformerHasNotSynced", synced); err != nil {
		return err
	}
	return errors.Join(
		s.Generic.AddPostStartHook("start-apiextensions-informers", func(ctx genericapiserver.PostStartHookContext) error {
			go s.Follow(ctx)
			go func() {
				if err := s.panics().Guard(panics.Definition, func() error { return warm(ctx) }); err != nil {
					s.cfg.Logger.Error("Cannot warm up for definitions", "err", err)
				}
			}()
			return nil
		}),
		s.Generic.AddPostStartHook("start-apiextensions-controllers", func(ctx genericapiserver.PostStartHookContext) error {
			go conditions.run(ctx)
			select {
			case <-ctx.Done():
			case <-s.catalog.synced: // and its handlers, such as discovery's, have all rows
			}
			return nil
		}),
		s.Generic.AddPostStartHook("crd-informer-synced", func(ctx genericapiserver.PostStartHookContext) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-s.catalog.synced:
				close(synced)
				return nil
			}
		}),
	)
}

// Follow keeps the catalog and the caches current until the context ends. A server that
// never writes runs it in place of Generic's post-start hooks.
func (s *Server) Follow(ctx context.Context) {
	var sweeping sync.WaitGroup
	defer sweeping.Wait()
	sweeping.Go(func() { s.sweep(ctx) })
	_ = s.catalog.Run(ctx) // the only error is the context's
}

// sweepPeriod is the time between two sweeps of the caches, and counts of objects.
const sweepPeriod = time.Minute

// sweep drops idle values and traces of deleted resources, and counts objects, until the
// context ends.
func (s *Server) sweep(ctx context.Context) {
	sweep, forget := time.NewTicker(sweepPeriod), time.NewTicker(forgetPeriod)
	defer sweep.Stop()
	defer forget.Stop()
	for {
		select {
		case <-sweep.C:
			s.compiled.sweep()
			s.conversions.sweep()
			s.reportCounts()
		case <-forget.C:
			s.forgetGone()
		case <-ctx.Done():
			return
		}
	}
}
