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

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/millrace/millrace/internal/resource"
	"github.com/millrace/millrace/internal/storage"
)

// podIndexer is the store of the pod informer. It keeps nothing: it decodes out
// of the byte cache what it is asked for, so it is never behind the cache. Pods
// that cannot be read are not in it.
type podIndexer struct {
	// source returns the storage of pods, nil before it is made.
	source func() *storage.Store

	mu struct {
		sync.RWMutex
		indexers  cache.Indexers
		transform cache.TransformFunc
	}
}

var _ cache.Indexer = (*podIndexer)(nil)

// errReadOnly says who changes pods.
var errReadOnly = errors.New("the pod informer reads the cache of etcd: write through the API")

// Add implements cache.Store.
func (*podIndexer) Add(any) error { return errReadOnly }

// Update implements cache.Store.
func (*podIndexer) Update(any) error { return errReadOnly }

// Delete implements cache.Store.
func (*podIndexer) Delete(any) error { return errReadOnly }

// Replace implements cache.Store.
func (*podIndexer) Replace([]any, string) error { return errReadOnly }

// Resync implements cache.Store.
func (*podIndexer) Resync() error { return nil }

// Bookmark implements cache.Store. The cache knows how far it is.
func (*podIndexer) Bookmark(string) {}

// LastStoreSyncResourceVersion implements cache.Store.
func (x *podIndexer) LastStoreSyncResourceVersion() string {
	s := x.source()
	if s == nil || s.Cache().Ready() != nil {
		return ""
	}
	return strconv.FormatInt(s.Resource().Snapshot().Revision, 10)
}

// Get implements cache.Store.
func (x *podIndexer) Get(obj any) (any, bool, error) {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, cache.KeyError{Obj: obj, Err: err}
	}
	return x.GetByKey(key)
}

// GetByKey implements cache.Store. Keys are as in the cache: namespace/name.
func (x *podIndexer) GetByKey(key string) (any, bool, error) {
	s := x.source()
	if s == nil {
		return nil, false, nil
	}
	pod := x.decode(s, s.Resource().Snapshot().Get(key))
	if pod == nil {
		return nil, false, nil
	}
	return pod, true, nil
}

// List implements cache.Store.
func (x *podIndexer) List() []any {
	var pods []any
	for _, pod := range x.pods("") {
		pods = append(pods, pod)
	}
	return pods
}

// ListKeys implements cache.Store.
func (x *podIndexer) ListKeys() []string { return slices.Collect(x.keys("")) }

// Index implements cache.Indexer.
func (x *podIndexer) Index(name string, obj any) ([]any, error) {
	indexOf, err := x.index(name)
	if err != nil {
		return nil, err
	}
	values, err := indexOf(obj)
	if err != nil {
		return nil, err
	}
	if len(values) == 1 {
		return x.ByIndex(name, values[0])
	}
	var pods []any
	for _, pod := range x.pods("") {
		own, err := indexOf(pod)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(own, func(value string) bool { return slices.Contains(values, value) }) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// ByIndex implements cache.Indexer.
func (x *podIndexer) ByIndex(name, value string) ([]any, error) {
	var pods []any
	err := x.indexed(name, value, func(_ string, pod *corev1.Pod) { pods = append(pods, pod) })
	return pods, err
}

// IndexKeys implements cache.Indexer.
func (x *podIndexer) IndexKeys(name, value string) ([]string, error) {
	if name == cache.NamespaceIndex {
		return slices.Collect(x.keys(value + "/")), nil
	}
	var keys []string
	err := x.indexed(name, value, func(key string, _ *corev1.Pod) { keys = append(keys, key) })
	return keys, err
}

// ListIndexFuncValues implements cache.Indexer.
func (x *podIndexer) ListIndexFuncValues(name string) []string {
	found := map[string]bool{}
	if name == cache.NamespaceIndex {
		for key := range x.keys("") {
			namespace, _, _ := strings.Cut(key, "/")
			found[namespace] = true
		}
	} else if indexOf, err := x.index(name); err == nil {
		for _, pod := range x.pods("") {
			values, _ := indexOf(pod)
			for _, value := range values {
				found[value] = true
			}
		}
	}
	return slices.Collect(maps.Keys(found))
}

// GetIndexers implements cache.Indexer.
func (x *podIndexer) GetIndexers() cache.Indexers {
	x.mu.RLock()
	defer x.mu.RUnlock()
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	maps.Copy(indexers, x.mu.indexers)
	return indexers
}

// AddIndexers implements cache.Indexer. All but the namespace's are computed
// over all pods whenever one is asked for, since nothing in this server adds any.
func (x *podIndexer) AddIndexers(indexers cache.Indexers) error {
	known := x.GetIndexers()
	for name := range indexers {
		if known[name] != nil {
			return fmt.Errorf("add index %q: there is one of that name", name)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mu.indexers == nil {
		x.mu.indexers = cache.Indexers{}
	}
	maps.Copy(x.mu.indexers, indexers)
	return nil
}

func (x *podIndexer) index(name string) (cache.IndexFunc, error) {
	if indexOf := x.GetIndexers()[name]; indexOf != nil {
		return indexOf, nil
	}
	return nil, fmt.Errorf("there is no index %q", name)
}

// indexed calls use for each pod that has a value in an index.
func (x *podIndexer) indexed(name, value string, use func(key string, pod *corev1.Pod)) error {
	indexOf, err := x.index(name)
	if err != nil {
		return err
	}
	prefix := ""
	if name == cache.NamespaceIndex {
		prefix = value + "/"
	}
	for key, pod := range x.pods(prefix) {
		values, err := indexOf(pod)
		if err != nil {
			return err
		}
		if slices.Contains(values, value) {
			use(key, pod)
		}
	}
	return nil
}

// pods decodes the pods whose key begins with a prefix.
func (x *podIndexer) pods(prefix string) iter.Seq2[string, *corev1.Pod] {
	return func(yield func(string, *corev1.Pod) bool) {
		s := x.source()
		if s == nil {
			return
		}
		for e := range s.Resource().Snapshot().All(prefix, "") {
			if pod := x.decode(s, e); pod != nil && !yield(e.Key, pod) {
				return
			}
		}
	}
}

func (x *podIndexer) keys(prefix string) iter.Seq[string] {
	return func(yield func(string) bool) {
		s := x.source()
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

// decode returns an entry's pod, a fresh one, and nil if there is none to read.
func (x *podIndexer) decode(s *storage.Store, e *resource.Entry) *corev1.Pod {
	if e == nil || e.Err != nil {
		return nil
	}
	pod, err := x.convert(s, e)
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("read pod %s for an informer: %w", e.Key, err))
		return nil
	}
	return pod
}

func (x *podIndexer) convert(s *storage.Store, e *resource.Entry) (*corev1.Pod, error) {
	stored, err := s.Decode(e)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := legacyscheme.Scheme.Convert(stored, pod, nil); err != nil {
		return nil, err
	}
	x.mu.RLock()
	transform := x.mu.transform
	x.mu.RUnlock()
	if transform == nil {
		return pod, nil
	}
	transformed, err := transform(pod)
	if err != nil {
		return nil, err
	}
	pod, ok := transformed.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("transformed to %T", transformed)
	}
	return pod, nil
}
