package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// Backend is where objects come from, with the cache in front of it: an etcd cluster, or
// an API server.
type Backend struct {
	// Client is shared by all stores, and none of them closes it. Nil means that there is
	// no etcd: writes, and reads that the cache cannot answer, fail.
	Client     *kubernetes.Client
	Cache      *cache.Cache
	Consistent *cache.Consistent
	// Prover is Config.Prover.
	Prover *cache.Prover
	// Compactor knows the oldest revision that etcd holds. Nil means that the revision
	// is unknown.
	Compactor etcd3.Compactor
	// PassOnAfter, WatchPassOnAfter and MaxStaleness become fields of Config.
	PassOnAfter, WatchPassOnAfter, MaxStaleness time.Duration
}

// Decorator makes a Store wherever Kubernetes would make a storage of its own. Its
// fields are set before the first call and never change.
type Decorator struct {
	// Backend returns where a resource is stored.
	Backend func(*storagebackend.ConfigForResource) (*Backend, error)
	// Uncached reports whether Kubernetes keeps a kind out of its watch cache. Errors and
	// limits of such a kind differ. It may be nil.
	Uncached func(schema.GroupResource) bool
	// Altered returns a function for a kind, which reports whether Kubernetes' handlers
	// alter an object on its way out. It may be nil, and so may its result.
	Altered func(schema.GroupResource) func(runtime.Object) bool
	// Scan returns a function for a kind. The function reads the attributes and the UID of a
	// stored object without decoding it, or reports that it cannot. Scan may be nil, and so may
	// the function. It must be nil for kinds that handlers alter. empty is an object of the kind
	// in internal form. onlyMetadata says that the kind's attributes are labels, name and
	// namespace.
	Scan func(gr schema.GroupResource, empty runtime.Object, onlyMetadata bool) func(value []byte) (entry.Scan, bool)
	// Usable returns Config.Usable of a kind. It may be nil, and so may its result.
	Usable func(schema.GroupResource) func(key string, obj runtime.Object) error
	// Verbatim says that all built-in resources have Config.Verbatim. Backend is where their
	// JSON comes from, and Protobuf where their protobuf comes from. Protobuf returns nil for
	// kinds that have no protobuf. It must be set if Verbatim is.
	Verbatim bool
	Protobuf func(schema.GroupResource) *Backend

	mu struct {
		sync.Mutex
		// stores has the stores of built-in kinds, and protobuf the stores of the same kinds in
		// protobuf.
		stores, protobuf map[schema.GroupResource]*Store
	}
}

var _ generic.StorageDecorator = (*Decorator)(nil).Decorate

// Decorate makes the Store of a resource and registers the resource with the cache. It
// is a generic.StorageDecorator.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry.StorageWithCacher; compare at each upgrade.
func (d *Decorator) Decorate(
	config *storagebackend.ConfigForResource,
	resourcePrefix string,
	_ func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object,
	attributes storage.AttrFunc,
	_ storage.IndexerFuncs,
	indexers *toolscache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	backend, err := d.Backend(config)
	if err != nil {
		return nil, nil, err
	}
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	open := func(codec runtime.Codec) (storage.Interface, error) {
		encoding := *config
		encoding.Codec = codec
		return newEtcd(backend, &encoding, resourcePrefix, transformer, newFunc, newListFunc)
	}
	suggestions := &SuggestionCodec{Codec: config.Codec}
	etcd, err := open(suggestions)
	if err != nil {
		return nil, nil, fmt.Errorf("open storage of %s: %w", config.GroupResource, err)
	}
	cfg := Config{
		Etcd: etcd, Open: open, Suggestions: suggestions, Cache: backend.Cache, Consistent: backend.Consistent, Prover: backend.Prover,
		Codec: config.Codec, ResourcePrefix: resourcePrefix, PathPrefix: config.Prefix,
		New: newFunc, NewList: newListFunc, Attributes: attributes,
		IndexedFields: indexedFields(indexers),
		LikeEtcd:      d.Uncached != nil && d.Uncached(config.GroupResource),
		PassOnAfter:   backend.PassOnAfter, WatchPassOnAfter: backend.WatchPassOnAfter,
		MaxStaleness: backend.MaxStaleness,
	}
	if d.Usable != nil {
		cfg.Usable = d.Usable(config.GroupResource)
	}
	if _, custom := newFunc().(runtime.Unstructured); d.Verbatim && !custom {
		return d.decorateVerbatim(cfg, config.GroupResource, transformer)
	}
	s := d.newStore(cfg, config.GroupResource, transformer)
	d.addStore(config.GroupResource, s)
	return s, sync.OnceFunc(s.release), nil
}

// newStore registers a resource with its cache and makes the Store.
func (d *Decorator) newStore(cfg Config, gr schema.GroupResource, transformer value.Transformer) *Store {
	cfg.Resource = cfg.Cache.Register(d.cacheSpec(cfg, gr, transformer))
	s := New(cfg)
	s.estimatesSizes.Store(utilfeature.DefaultFeatureGate.Enabled(features.SizeBasedListCostEstimate))
	return s
}

// release stops a store, and releases its resource in the cache.
func (s *Store) release() {
	s.Stop()
	s.cfg.Cache.Release(s.cfg.Resource)
}

// CountKeys asks etcd for the number of a resource's keys. The resource needs no Store. Its
// Backend must have a Client.
func (d *Decorator) CountKeys(ctx context.Context, config *storagebackend.ConfigForResource, resourcePrefix string) (int64, error) {
	backend, err := d.Backend(config)
	if err != nil {
		return 0, err
	}
	return backend.Client.Count(ctx, EtcdPrefix(config.Prefix, resourcePrefix), kubernetes.CountOptions{})
}

// indexedFields returns the fields that a registry indexes, sorted. The names of the
// indexes contain them (storage.FieldIndex).
func indexedFields(indexers *toolscache.Indexers) []string {
	if indexers == nil {
		return nil
	}
	var names []string
	for name := range *indexers {
		if field, ok := strings.CutPrefix(name, storage.FieldIndex("")); ok {
			names = append(names, field)
		}
	}
	slices.Sort(names)
	return names
}

// newEtcd makes Kubernetes' own store over the shared client, or a noEtcd if there is no client.
// Kubernetes' factory would dial etcd for each resource.
//
// Upstream: k8s.io/apiserver/pkg/storage/storagebackend/factory.newETCD3Storage; compare at each upgrade.
func newEtcd(b *Backend, config *storagebackend.ConfigForResource, resourcePrefix string, transformer value.Transformer,
	newFunc, newListFunc func() runtime.Object) (storage.Interface, error) {
	if b.Client == nil {
		return noEtcd{b.Cache}, nil
	}
	versioner := storage.APIObjectVersioner{}
	var decoder etcd3.Decoder = guardedDecoder{etcd3.NewDefaultDecoder(config.Codec, versioner), b.Cache.Panics}
	transformer = guardedTransformer{transformer, b.Cache.Panics}
	unsafeDeletion := utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
	if unsafeDeletion {
		transformer = etcd3.WithCorruptObjErrorHandlingTransformer(transformer)
		decoder = etcd3.WithCorruptObjErrorHandlingDecoder(decoder)
	}
	store, err := etcd3.New(b.Client, b.Compactor, config.Codec, newFunc, newListFunc, config.Prefix, resourcePrefix,
		config.GroupResource, transformer, config.LeaseManagerConfig, decoder, versioner)
	if err != nil {
		return nil, err
	}
	if unsafeDeletion {
		return etcd3.NewStoreWithUnsafeCorruptObjectDeletion(store, config.GroupResource), nil
	}
	return store, nil
}

// cacheSpec describes the resource to the cache: its keys in etcd, how to decrypt its
// objects and how to read their attributes.
func (d *Decorator) cacheSpec(cfg Config, gr schema.GroupResource, transformer value.Transformer) cache.Spec {
	spec := cache.Spec{
		Prefix:        EtcdPrefix(cfg.PathPrefix, cfg.ResourcePrefix),
		GroupResource: gr,
		Open: func(ctx context.Context, key string, stored []byte) ([]byte, error) {
			plain, _, err := transformer.TransformFromStorage(ctx, stored, value.DefaultContext(key))
			return plain, err
		},
	}
	reader := newDescriber()
	if _, custom := cfg.New().(runtime.Unstructured); custom {
		spec.Describe = reader.describeCustom
		return spec
	}
	if cfg.Verbatim != nil {
		spec.Describe = func(e *entry.Entry) error { return reader.describeVerbatim(e, cfg.Verbatim) }
		return spec
	}
	s := New(cfg)
	altered := func(runtime.Object) bool { return false }
	if d.Altered != nil {
		if ofKind := d.Altered(gr); ofKind != nil {
			altered = ofKind
		}
	}
	scan := func([]byte) (found entry.Scan, ok bool) { return }
	if d.Scan != nil {
		if ofKind := d.Scan(gr, cfg.New(), hasOnlyMetadata(cfg.Attributes)); ofKind != nil {
			scan = ofKind
		}
	}
	spec.Describe = func(e *entry.Entry) error {
		if found, ok := scan(e.Value); ok {
			reader.describe(e, found)
			return nil
		}
		obj, err := s.decodeAt(e, e.Revision)
		if err != nil {
			return err
		}
		l, f, err := cfg.Attributes(obj)
		if err != nil {
			return fmt.Errorf("read attributes: %w", err)
		}
		m, err := meta.Accessor(obj)
		if err != nil {
			return fmt.Errorf("read metadata: %w", err)
		}
		reader.describe(e, entry.Scan{Labels: l, Fields: f, UID: []byte(m.GetUID())})
		// Some readers are not shown objects that are not usable. So reads of these objects must
		// come to the Store.
		e.Altered = altered(obj) || cfg.Usable != nil && cfg.Usable(e.Key, obj) != nil
		return nil
	}
	return spec
}

// addStore lets Decorator.Store find a store, unless its resource is a custom one.
func (d *Decorator) addStore(gr schema.GroupResource, s *Store) {
	if _, custom := s.cfg.New().(*unstructured.Unstructured); custom {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.stores == nil {
		d.mu.stores = map[schema.GroupResource]*Store{}
	}
	d.mu.stores[gr] = s
}

// Store returns the store of a built-in kind, or nil if there is none.
func (d *Decorator) Store(gr schema.GroupResource) *Store {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.stores[gr]
}
