package storage

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/tier/cache"
)

// noEtcd stands in the place of Kubernetes' store where there is no etcd. Writes, and reads that
// the cache cannot answer, are errors.
type noEtcd struct{ cache *cache.Cache }

var _ storage.Interface = noEtcd{}

var errNoEtcd = errors.New("this server has no etcd: only what its cache holds can be read")

func (noEtcd) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (noEtcd) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	return errNoEtcd
}

func (noEtcd) Delete(context.Context, string, runtime.Object, *storage.Preconditions, storage.ValidateObjectFunc,
	runtime.Object, storage.DeleteOptions) error {
	return errNoEtcd
}

func (noEtcd) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return nil, errNoEtcd
}

func (noEtcd) Get(context.Context, string, storage.GetOptions, runtime.Object) error {
	return errNoEtcd
}

func (noEtcd) GetList(context.Context, string, storage.ListOptions, runtime.Object) error {
	return errNoEtcd
}

func (noEtcd) GuaranteedUpdate(context.Context, string, runtime.Object, bool, *storage.Preconditions, storage.UpdateFunc,
	runtime.Object) error {
	return errNoEtcd
}

func (noEtcd) Stats(context.Context) (storage.Stats, error) { return storage.Stats{}, errNoEtcd }

func (noEtcd) ReadinessCheck() error { return nil }

func (noEtcd) RequestWatchProgress(context.Context) error { return errNoEtcd }

func (noEtcd) GetCurrentResourceVersion(context.Context) (uint64, error) { return 0, errNoEtcd }

func (noEtcd) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// CompactRevision implements storage.Interface. Nothing is known of etcd's compaction. What is
// older than the cache's history is left to the upstream, which knows.
func (e noEtcd) CompactRevision() int64 { return e.cache.AgedRevision() }
