package kube

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/millrace/millrace/internal/tier/storage"
	"github.com/millrace/millrace/internal/wire/entry"
)

// storedIndexer is the store of a storedInformer. It holds no objects: it decodes them
// from the byte cache at each call, so it never lags the cache. The caller owns what it gets.
// Objects that cannot be decoded are not in the store.
type storedIndexer struct {
	// source returns the store of the kind. It returns nil before the store is made.
	source func() *storage.Store
	read   objectReader
	// scheme converts stored objects to the version of read.empty. nil means Kubernetes' own
	// scheme.
	scheme *runtime.Scheme

	mu struct {
		sync.RWMutex
		indexers  cache.Indexers
		transform cache.TransformFunc
	}
}

// objectReader makes the objects of an informer.
type objectReader struct {
	// empty makes an object of the API version that the informer returns.
	empty func() object
	// forHandlers, if set, reads an object with only those fields that the informer's handlers
	// read. It returns nil for an object that is to be decoded as a whole.
	forHandlers func(*entry.Entry) object
}

// object is an object of Kubernetes' API, as informers return it.
type object interface {
	runtime.Object
	metav1.Object
}

var _ cache.Indexer = (*storedIndexer)(nil)

// errReadOnly is returned by all methods that would change an object.
var errReadOnly = errors.New("the informer reads the cache of etcd: write through the API")

// Add implements cache.Store.
func (*storedIndexer) Add(any) error { return errReadOnly }

// Update implements cache.Store.
func (*storedIndexer) Update(any) error { return errReadOnly }

// Delete implements cache.Store.
func (*storedIndexer) Delete(any) error { return errReadOnly }

// Replace implements cache.Store.
func (*storedIndexer) Replace([]any, string) error { return errReadOnly }

// Resync implements cache.Store.
func (*storedIndexer) Resync() error { return nil }

// Bookmark implements cache.Store. It does nothing: the cache knows its own revision.
func (*storedIndexer) Bookmark(string) {}

// LastStoreSyncResourceVersion implements cache.Store.
func (ix *storedIndexer) LastStoreSyncResourceVersion() string {
	s := ix.source()
	if s == nil || s.Cache().Ready() != nil {
		return ""
	}
	return strconv.FormatInt(s.Resource().Snapshot().Revision, 10)
}

// Get implements cache.Store.
func (ix *storedIndexer) Get(obj any) (any, bool, error) {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, cache.KeyError{Obj: obj, Err: err}
	}
	return ix.GetByKey(key)
}

// GetByKey implements cache.Store. A key is namespace/name, as in the cache.
func (ix *storedIndexer) GetByKey(key string) (any, bool, error) {
	s := ix.source()
	if s == nil {
		return nil, false, nil
	}
	obj := ix.decode(s, s.Resource().Snapshot().Get(key))
	if obj == nil {
		return nil, false, nil
	}
	return obj, true, nil
}

// List implements cache.Store.
func (ix *storedIndexer) List() []any {
	var objects []any
	for _, obj := range ix.objects("") {
		objects = append(objects, obj)
	}
	return objects
}

// ListKeys implements cache.Store.
func (ix *storedIndexer) ListKeys() []string { return slices.Collect(ix.keys("")) }

// Index implements cache.Indexer.
func (ix *storedIndexer) Index(name string, obj any) ([]any, error) {
	indexOf, err := ix.indexFunc(name)
	if err != nil {
		return nil, err
	}
	values, err := indexOf(obj)
	if err != nil {
		return nil, err
	}
	if len(values) == 1 {
		return ix.ByIndex(name, values[0])
	}
	var objects []any
	for _, obj := range ix.objects("") {
		own, err := indexOf(obj)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(own, func(value string) bool { return slices.Contains(values, value) }) {
			objects = append(objects, obj)
		}
	}
	return objects, nil
}

// ByIndex implements cache.Indexer.
func (ix *storedIndexer) ByIndex(name, value string) ([]any, error) {
	var objects []any
	err := ix.eachIndexed(name, value, func(_ string, obj object) { objects = append(objects, obj) })
	return objects, err
}

// IndexKeys implements cache.Indexer.
func (ix *storedIndexer) IndexKeys(name, value string) ([]string, error) {
	if name == cache.NamespaceIndex {
		return slices.Collect(ix.keys(value + "/")), nil
	}
	var keys []string
	err := ix.eachIndexed(name, value, func(key string, _ object) { keys = append(keys, key) })
	return keys, err
}

// ListIndexFuncValues implements cache.Indexer.
func (ix *storedIndexer) ListIndexFuncValues(name string) []string {
	found := map[string]bool{}
	if name == cache.NamespaceIndex {
		for key := range ix.keys("") {
			namespace, _, _ := strings.Cut(key, "/")
			found[namespace] = true
		}
	} else if indexOf, err := ix.indexFunc(name); err == nil {
		for _, obj := range ix.objects("") {
			values, _ := indexOf(obj)
			for _, value := range values {
				found[value] = true
			}
		}
	}
	return slices.Collect(maps.Keys(found))
}

// GetIndexers implements cache.Indexer.
func (ix *storedIndexer) GetIndexers() cache.Indexers {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	maps.Copy(indexers, ix.mu.indexers)
	return indexers
}

// AddIndexers implements cache.Indexer. All indexes except the index of namespaces are
// computed over all objects at each query, since no component of this server adds any.
func (ix *storedIndexer) AddIndexers(indexers cache.Indexers) error {
	known := ix.GetIndexers()
	for name := range indexers {
		if known[name] != nil {
			return fmt.Errorf("add index %q: there is one of that name", name)
		}
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.mu.indexers == nil {
		ix.mu.indexers = cache.Indexers{}
	}
	maps.Copy(ix.mu.indexers, indexers)
	return nil
}

func (ix *storedIndexer) indexFunc(name string) (cache.IndexFunc, error) {
	if indexOf := ix.GetIndexers()[name]; indexOf != nil {
		return indexOf, nil
	}
	return nil, fmt.Errorf("there is no index %q", name)
}

// eachIndexed calls use for each object that an index lists under a value.
func (ix *storedIndexer) eachIndexed(name, value string, use func(key string, obj object)) error {
	indexOf, err := ix.indexFunc(name)
	if err != nil {
		return err
	}
	prefix := ""
	if name == cache.NamespaceIndex {
		prefix = value + "/"
	}
	for key, obj := range ix.objects(prefix) {
		values, err := indexOf(obj)
		if err != nil {
			return err
		}
		if slices.Contains(values, value) {
			use(key, obj)
		}
	}
	return nil
}

// objects yields the decoded objects whose keys begin with a prefix.
func (ix *storedIndexer) objects(prefix string) iter.Seq2[string, object] {
	return func(yield func(string, object) bool) {
		s := ix.source()
		if s == nil {
			return
		}
		for e := range s.Resource().Snapshot().All(prefix, "") {
			if obj := ix.decode(s, e); obj != nil && !yield(e.Key, obj) {
				return
			}
		}
	}
}

func (ix *storedIndexer) keys(prefix string) iter.Seq[string] {
	return func(yield func(string) bool) {
		s := ix.source()
		if s == nil {
			return
		}
		for e := range s.Resource().Snapshot().All(prefix, "") {
			if e.Err == nil && !yield(e.Key) {
				return
			}
		}
	}
}

// decode decodes an entry into a new object. It returns nil if there is no entry or it
// cannot be decoded.
func (ix *storedIndexer) decode(s *storage.Store, e *entry.Entry) object {
	if e == nil || e.Err != nil {
		return nil
	}
	obj, err := ix.convert(s, e)
	return ix.readable(e, obj, err)
}

// decodeForHandlers decodes an entry as decode does, but may leave out fields that handlers
// do not read.
func (ix *storedIndexer) decodeForHandlers(s *storage.Store, e *entry.Entry) object {
	if e == nil || ix.read.forHandlers == nil {
		return ix.decode(s, e)
	}
	obj := ix.read.forHandlers(e)
	if obj == nil {
		return ix.decode(s, e)
	}
	obj, err := ix.transform(obj)
	return ix.readable(e, obj, err)
}

// readable returns obj, the object of an entry. It logs err and returns nil if err is not nil.
func (ix *storedIndexer) readable(e *entry.Entry, obj object, err error) object {
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("read %s for an informer: %w", e.Key, err))
		return nil
	}
	return obj
}

// transform applies the informer's transform function, if it has one.
func (ix *storedIndexer) transform(obj object) (object, error) {
	ix.mu.RLock()
	transform := ix.mu.transform
	ix.mu.RUnlock()
	if transform == nil {
		return obj, nil
	}
	transformed, err := transform(obj)
	if err != nil {
		return nil, err
	}
	obj, ok := transformed.(object)
	if !ok {
		return nil, fmt.Errorf("transformed to %T", transformed)
	}
	return obj, nil
}

func (ix *storedIndexer) convert(s *storage.Store, e *entry.Entry) (object, error) {
	stored, err := s.Decode(e)
	if err != nil {
		return nil, err
	}
	scheme := ix.scheme
	if scheme == nil {
		scheme = legacyscheme.Scheme
	}
	obj := ix.read.empty()
	if err := scheme.Convert(stored, obj, nil); err != nil {
		return nil, err
	}
	return ix.transform(obj)
}
