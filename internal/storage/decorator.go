package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
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

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/resource"
)

// Backend is one etcd cluster with the cache in front of it.
type Backend struct {
	// Client is shared by all stores and closed by none.
	Client     *kubernetes.Client
	Cache      *cache.Cache
	Consistent *cache.Consistent
	// Compactor tells the oldest revision that etcd holds. Nil is not known.
	Compactor etcd3.Compactor
}

// Decorator puts a Store in the place of each storage that Kubernetes makes.
type Decorator struct {
	// Backend finds the etcd cluster that a resource is stored in.
	Backend func(storagebackend.TransportConfig) (*Backend, error)
	// Uncached reports for a kind whether Kubernetes keeps it out of its watch
	// cache, which shows in errors and limits. It may be nil.
	Uncached func(schema.GroupResource) bool
	// Altered reports for a kind whether handlers alter an object on its way
	// out. It may be nil, as may what it returns.
	Altered func(schema.GroupResource) func(runtime.Object) bool

	// Scan reads a kind's attributes without decoding, where it can. It may be nil,
	// as may what it returns. It must not be given for irregular kinds.
	Scan func(schema.GroupResource) func(value []byte) (labels.Set, fields.Set, bool)

	mu struct {
		sync.Mutex
		stores map[schema.GroupResource]*Store
	}
}

var _ generic.StorageDecorator = (*Decorator)(nil).Decorate

// Decorate is a generic.StorageDecorator.
func (d *Decorator) Decorate(
	config *storagebackend.ConfigForResource,
	resourcePrefix string,
	_ func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object,
	attributes storage.AttrFunc,
	_ storage.IndexerFuncs,
	indexers *toolscache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	backend, err := d.Backend(config.Transport)
	if err != nil {
		return nil, nil, err
	}
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	open := func(codec runtime.Codec) (storage.Interface, error) {
		writing := *config
		writing.Codec = codec
		return newEtcd(backend, &writing, resourcePrefix, transformer, newFunc, newListFunc)
	}
	suggested := &SuggestionCodec{Codec: config.Codec}
	etcd, err := open(suggested)
	if err != nil {
		return nil, nil, fmt.Errorf("open storage of %s: %w", config.GroupResource, err)
	}
	cfg := Config{
		Etcd: etcd, Open: open, Suggestions: suggested, Cache: backend.Cache, Consistent: backend.Consistent,
		Codec: config.Codec, ResourcePrefix: resourcePrefix, PathPrefix: config.Prefix,
		New: newFunc, NewList: newListFunc, Attributes: attributes,
		IndexedFields: indexedFields(indexers),
		LikeEtcd:      d.Uncached != nil && d.Uncached(config.GroupResource),
	}
	cfg.Resource = backend.Cache.Register(d.cacheSpec(cfg, config.GroupResource, transformer))
	s := New(cfg)
	s.estimatesSizes.Store(utilfeature.DefaultFeatureGate.Enabled(features.SizeBasedListCostEstimate))
	d.addStore(config.GroupResource, s)
	var once sync.Once
	return s, func() {
		once.Do(func() {
			s.Stop()
			backend.Cache.Release(cfg.Resource)
		})
	}, nil
}

// CountKeys counts the keys that etcd has of a resource now. Nothing is opened for it.
func (d *Decorator) CountKeys(ctx context.Context, config *storagebackend.ConfigForResource, resourcePrefix string) (int64, error) {
	backend, err := d.Backend(config.Transport)
	if err != nil {
		return 0, err
	}
	return backend.Client.Count(ctx, EtcdPrefix(config.Prefix, resourcePrefix), kubernetes.CountOptions{})
}

// indexedFields reads the names that registries give their indexes
// (storage.FieldIndex).
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

// newEtcd makes Kubernetes' own store over the shared client. The factory's
// would dial etcd for each resource.
func newEtcd(b *Backend, config *storagebackend.ConfigForResource, resourcePrefix string, transformer value.Transformer,
	newFunc, newListFunc func() runtime.Object) (storage.Interface, error) {
	versioner := storage.APIObjectVersioner{}
	decoder := etcd3.NewDefaultDecoder(config.Codec, versioner)
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

// cacheSpec introduces the resource to the cache.
func (d *Decorator) cacheSpec(cfg Config, gr schema.GroupResource, transformer value.Transformer) cache.Spec {
	spec := cache.Spec{
		Prefix:        EtcdPrefix(cfg.PathPrefix, cfg.ResourcePrefix),
		GroupResource: gr,
		Open: func(ctx context.Context, key string, stored []byte) ([]byte, error) {
			plain, _, err := transformer.TransformFromStorage(ctx, stored, value.DefaultContext(key))
			return plain, err
		},
	}
	if _, custom := cfg.New().(runtime.Unstructured); custom {
		spec.Describe = describeCustom
		return spec
	}
	s := New(cfg)
	irregular := func(runtime.Object) bool { return false }
	if d.Altered != nil {
		if f := d.Altered(gr); f != nil {
			irregular = f
		}
	}
	scan := func([]byte) (l labels.Set, f fields.Set, ok bool) { return }
	if d.Scan != nil {
		if found := d.Scan(gr); found != nil {
			scan = found
		}
	}
	spec.Describe = func(e *resource.Entry) error {
		if l, f, ok := scan(e.Value); ok {
			e.Attributes = resource.NewAttributes(l, f)
			return nil
		}
		obj, err := s.decode(e, e.Revision)
		if err != nil {
			return err
		}
		l, f, err := cfg.Attributes(obj)
		if err != nil {
			return fmt.Errorf("read attributes: %w", err)
		}
		e.Attributes, e.Altered = resource.NewAttributes(l, f), irregular(obj)
		return nil
	}
	return spec
}

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

// Store returns the storage of a built-in kind, nil if there is none.
func (d *Decorator) Store(gr schema.GroupResource) *Store {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.stores[gr]
}
