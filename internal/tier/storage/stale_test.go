package storage_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/storage"
)

// brokenSource is a source that fails, or answers with its revision.
type brokenSource struct {
	revision int64
	err      error
}

func (s *brokenSource) Revision(context.Context) (int64, error) { return s.revision, s.err }
func (s *brokenSource) RequestProgress(context.Context) error   { return nil }

// TestBoundedStaleness reads from a store that cannot prove its state: reads that may be
// answered with a stale one are, for a while.
func TestBoundedStaleness(t *testing.T) {
	t.Parallel()
	for name, passOnAfter := range map[string]time.Duration{"etcd": 0, "api": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const loaded = 10
				source, held := &brokenSource{revision: loaded}, cache.New(cache.Config{})
				backend := &storage.Backend{Cache: held, Consistent: cache.NewConsistent(held, source), PassOnAfter: passOnAfter, MaxStaleness: 5 * time.Second}
				decorator := storage.Decorator{Backend: func(*storagebackend.ConfigForResource) (*storage.Backend, error) { return backend, nil }}
				config := storagebackend.NewDefaultConfig(pathPrefix, podCodec())
				decorated, destroy, err := decorator.Decorate(config.ForResource(schema.GroupResource{Resource: "pods"}), "/pods/",
					nil, newPod, newPodList, podAttributes, nil, nil)
				must(t, err)
				t.Cleanup(destroy)
				held.BeginLoad().End(t.Context(), loaded)
				read := func() (age time.Duration, err error) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					ctx, stale := cache.WithStaleness(ctx)
					_, err = decorated.(*storage.Store).Select(ctx, "/pods", apistorage.ListOptions{Predicate: apistorage.Everything, Recursive: true})
					return stale.Age, err
				}
				if age, err := read(); err != nil || age != 0 {
					t.Errorf("a proven read: age %v, %v", age, err)
				}
				source.err = errors.New("not there")
				<-time.After(2 * time.Second)
				if age, err := read(); err != nil || age < 2*time.Second || age > 3*time.Second {
					t.Errorf("after 2 s: age %v, %v", age, err)
				}
				_, err = decorated.(*storage.Store).Select(t.Context(), "/pods", apistorage.ListOptions{Predicate: apistorage.Everything, Recursive: true})
				if err == nil {
					t.Error("a read that must be new is answered")
				}
				<-time.After(4 * time.Second)
				if age, err := read(); err == nil {
					t.Errorf("after 6 s: age %v", age)
				}
				// A check proves the state of its time, however late the cache gets there.
				source.revision, source.err = loaded+1, nil
				if _, err := read(); err == nil {
					t.Error("a cache behind the source is proven")
				}
				<-time.After(2 * time.Second)
				held.Progressed(loaded + 1)
				source.revision = loaded + 2
				if age, err := read(); err != nil || age < 2*time.Second {
					t.Errorf("after a late proof: age %v, %v", age, err)
				}
				<-time.After(time.Minute) // checks end
			})
		})
	}
}
