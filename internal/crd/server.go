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
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/crd/definitioncodec"
	"github.com/millrace/millrace/internal/read"
	"github.com/millrace/millrace/internal/storage"
	"github.com/millrace/millrace/internal/watch"
)

// Config of a Server. The zero value is usable.
type Config struct {
	// Logger is told of definitions that cannot be read. Nil is slog's default.
	Logger *slog.Logger
	// CompiledBytes bounds the estimated memory of what is compiled. 0 is 64 MiB.
	CompiledBytes int64
	// ConvertedBytes bounds the memory of what webhooks have converted. 0 is 64 MiB.
	ConvertedBytes int64
	// Idle is for how long what is compiled stays unused. 0 means 5 minutes.
	Idle time.Duration
	// Clock drives all of them. Nil means the real one.
	Clock clock.PassiveClock
	// Route completes and makes the route of a version, by which it is read from
	// bytes. Nil leaves all reads to Kubernetes' handlers.
	Route func(read.RouteConfig) (*read.Route, error)
	// Gone is told of resources a while after their definitions went. It may be nil.
	Gone func(map[schema.GroupResource]bool)
	// Stored counts what etcd has of a resource, without opening its storage. It may be
	// nil.
	Stored func(context.Context, *storagebackend.ConfigForResource, string) (int64, error)
}

const (
	defaultCompiledBytes  = 64 << 20
	defaultConvertedBytes = 64 << 20
	defaultIdle           = 5 * time.Minute
)

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

// Server is Kubernetes' server of definitions and custom resources.
type Server struct {
	// Generic serves the definitions.
	Generic *genericapiserver.GenericAPIServer

	cfg     Config
	catalog *Catalog
	shelf   *shelf
	// converted is what webhooks have made of stored objects.
	converted *conversionCache
	// compiles is for what goes on the shelf.
	compiles room
	// next is who answers what no definition is served for.
	next http.Handler

	options         generic.RESTOptionsGetter
	admission       admission.Interface
	authorizer      authorizer.Authorizer
	converters      *conversion.CRConverterFactory
	scaleSerializer func() runtime.NegotiatedSerializer
	hasModels       bool
	maxBody         int64
	timeouts        timeouts
	// counts says that objects are to be counted.
	counts atomic.Bool

	// mu comes before Catalog.mu, and after served.mu.
	mu struct {
		sync.Mutex
		served map[types.UID]*served
		// kept are the registrations that outlive storages.
		kept map[types.UID]*kept
		// gone are resources whose metrics are to be dropped.
		gone map[schema.GroupResource]bool
		// went is how many of those there were at the last look, waits how often was
		// waited for more.
		went, waits int
	}
}

type timeouts struct{ request, minWatch time.Duration }

// kept is a resource in the cache that stays as long as its definition.
type kept struct {
	cache    *cache.Cache
	resource *cache.Resource
	hub      *watch.Hub
}

// New makes a server that passes on to another what it does not serve. Storage
// must be that of storage.Decorator.
func New(config apiextensionsapiserver.CompletedConfig, delegate genericapiserver.DelegationTarget, cfg Config) (*Server, error) {
	cfg.fill()
	server, err := config.GenericConfig.New("apiextensions-apiserver", delegate)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Generic: server, cfg: cfg, shelf: newShelf(cfg.CompiledBytes, cfg.Idle, cfg.Clock), converted: newConversionCache(cfg.ConvertedBytes, cfg.Idle, cfg.Clock), compiles: newRoom(), next: delegate.UnprotectedHandler(),
		options: config.ExtraConfig.CRDRESTOptionsGetter, admission: config.GenericConfig.AdmissionControl, authorizer: server.Authorizer,
		maxBody: config.GenericConfig.MaxRequestBodyBytes, scaleSerializer: sync.OnceValue(newScaleSerializer),
		timeouts: timeouts{config.GenericConfig.RequestTimeout, time.Duration(config.GenericConfig.MinRequestTimeout) * time.Second},
	}
	s.mu.served, s.mu.kept, s.mu.gone = map[types.UID]*served{}, map[types.UID]*kept{}, map[schema.GroupResource]bool{}
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

// install adds the API of definitions, and makes the catalog over their storage.
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
	// A flag may switch the API off. Definitions that are there are served.
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

// Catalog are the rows of all definitions.
func (s *Server) Catalog() *Catalog { return s.catalog }

// addHooks starts what runs with the server, under the names that Kubernetes
// shows in /readyz.
func (s *Server) addHooks(conditions *controller) error {
	synced := make(chan struct{})
	if err := s.Generic.RegisterMuxAndDiscoveryCompleteSignal("CRDInformerHasNotSynced", synced); err != nil {
		return err
	}
	return errors.Join(
		s.Generic.AddPostStartHook("start-apiextensions-informers", func(ctx genericapiserver.PostStartHookContext) error {
			// It ends with the context's error and no other.
			go func() { _ = s.catalog.Run(ctx) }()
			go s.sweep(ctx)
			go func() {
				if err := warm(ctx); err != nil {
					utilruntime.HandleErrorWithContext(ctx, err, "Cannot warm up for definitions")
				}
			}()
			return nil
		}),
		s.Generic.AddPostStartHook("start-apiextensions-controllers", func(ctx genericapiserver.PostStartHookContext) error {
			go conditions.run(ctx)
			select {
			case <-ctx.Done():
			case <-s.catalog.synced: // and who follows it, discovery among them
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

const (
	// sweepPeriod is how often what is idle is looked for, and objects are counted.
	sweepPeriod = time.Minute
	// forgetPeriod is how often it is looked for what is gone.
	forgetPeriod   = 10 * time.Second
	forgetPatience = 6
)

func (s *Server) sweep(ctx context.Context) {
	sweep, forget := time.NewTicker(sweepPeriod), time.NewTicker(forgetPeriod)
	defer sweep.Stop()
	defer forget.Stop()
	for {
		select {
		case <-sweep.C:
			s.shelf.sweep()
			s.converted.sweep()
			s.countAll()
		case <-forget.C:
			s.forgetGone()
		case <-ctx.Done():
			return
		}
	}
}

// serve returns how the definition of a row is served. It follows the newest row
// of the name, and is nil if there is none.
func (s *Server) serve(name string) *served {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Who changes the row comes after this and finds what is made here.
	d := s.catalog.Get(name)
	if d == nil {
		return nil
	}
	now := s.mu.served[d.UID]
	if now == nil {
		now = newServed(s, d)
		s.mu.served[d.UID] = now
	}
	return now
}

// changed follows the catalog.
func (s *Server) changed(before, after *Definition) {
	if before == nil {
		return
	}
	old, released := s.outdated(before, after)
	if old != nil {
		go s.tearDown(old, released)
	} else if released != nil {
		s.release(released)
	}
}

// outdated takes away what a change ends.
func (s *Server) outdated(before, after *Definition) (*served, *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.mu.served[before.UID]
	if after != nil && (now == nil || now.is(after)) {
		return nil, nil
	}
	var released *kept
	if after == nil {
		released = s.mu.kept[before.UID]
		delete(s.mu.kept, before.UID)
	}
	if now != nil {
		delete(s.mu.served, before.UID)
		now.retire()
	}
	return now, released
}

// registering is how long a request may take from finding how a resource is
// served to being counted.
const registering = time.Second

// tearDown waits for requests that are under way, and ends watches. What can no
// longer be decoded ends at once.
func (s *Server) tearDown(old *served, released *kept) {
	if !old.reading.empty() {
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			time.Sleep(registering)
			old.draining.Wait()
		}()
		select {
		case <-drained:
		case <-time.After(2 * s.timeouts.request):
		}
	}
	old.end()
	if released != nil {
		s.release(released)
	}
}

// keep lets a resource stay in the cache, with its history, until its definition
// is gone. It returns nil if that is so already, or was served otherwise before.
func (s *Server) keep(now *served, store *storage.Store) *kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	uid := now.def.UID
	if s.mu.served[uid] != now {
		return nil
	}
	if s.mu.kept[uid] == nil {
		store.Cache().Retain(store.Resource())
		k := &kept{store.Cache(), store.Resource(), watch.NewHub(store.Resource())}
		s.mu.kept[uid] = k
		s.count(k)
	}
	return s.mu.kept[uid]
}

// destroy ends all storages when the server has shut down.
func (s *Server) destroy() {
	s.mu.Lock()
	all := s.mu.served
	s.mu.served = map[types.UID]*served{}
	s.mu.Unlock()
	for _, now := range all {
		now.end()
	}
}
