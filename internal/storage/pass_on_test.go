package storage_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/storage"
)

// slowSource is at a revision, and makes no progress known.
type slowSource int64

func (s slowSource) Revision(context.Context) (int64, error) { return int64(s), nil }
func (s slowSource) RequestProgress(context.Context) error   { return nil }

// TestPassOnAfter reads from a store without etcd: what the cache cannot be shown to hold
// in time is left to another server, and the rest is answered.
func TestPassOnAfter(t *testing.T) {
	t.Parallel()
	const loaded = 10
	source := slowSource(loaded)
	held := cache.New(cache.Config{})
	backend := &storage.Backend{Cache: held, Consistent: cache.NewConsistent(held, &source), PassOnAfter: 20 * time.Millisecond}
	decorator := storage.Decorator{Backend: func(*storagebackend.ConfigForResource) (*storage.Backend, error) { return backend, nil }}
	config := storagebackend.NewDefaultConfig(pathPrefix, podCodec())
	decorated, destroy, err := decorator.Decorate(config.ForResource(schema.GroupResource{Resource: "pods"}), "/pods/",
		nil, newPod, newPodList, podAttributes, nil, nil)
	must(t, err)
	t.Cleanup(destroy)
	reads := func(version string) error {
		opts := apistorage.ListOptions{ResourceVersion: version, Predicate: apistorage.Everything, Recursive: true}
		_, listed := decorated.(*storage.Store).Select(t.Context(), "/pods", opts)
		initial := true
		opts.SendInitialEvents = &initial
		_, began := decorated.(*storage.Store).Begin(t.Context(), "/pods", opts)
		if (listed == nil) != (began == nil) {
			t.Errorf("version %q: list %v, watch-list %v", version, listed, began)
		}
		return listed
	}
	if err := reads("0"); !errors.Is(err, cache.ErrNotReady) {
		t.Errorf("before the load: %v", err)
	}
	held.BeginLoad().End(t.Context(), loaded)
	for _, version := range []string{"", "0", "10"} {
		if err := reads(version); err != nil {
			t.Errorf("version %q at revision %d: %v", version, loaded, err)
		}
	}
	source = loaded + 1
	for version, want := range map[string]error{"": cache.ErrUnproven, "0": nil, "11": cache.ErrUnproven} {
		if err := reads(version); !errors.Is(err, want) {
			t.Errorf("version %q behind the source: %v, want %v", version, err, want)
		}
	}
	if err := decorated.Create(t.Context(), "/pods/a", newPod(), newPod(), 0); err == nil {
		t.Error("a pod was created without etcd")
	}
}

// TestWatchPassOnAfter has a proof that comes too late for a list, and in time for a
// watch-list.
func TestWatchPassOnAfter(t *testing.T) {
	t.Parallel()
	held := cache.New(cache.Config{})
	source := slowSource(11)
	backend := &storage.Backend{Cache: held, Consistent: cache.NewConsistent(held, source), PassOnAfter: 1, WatchPassOnAfter: time.Minute}
	decorator := storage.Decorator{Backend: func(*storagebackend.ConfigForResource) (*storage.Backend, error) { return backend, nil }}
	config := storagebackend.NewDefaultConfig(pathPrefix, podCodec())
	decorated, destroy, err := decorator.Decorate(config.ForResource(schema.GroupResource{Resource: "pods"}), "/pods/",
		nil, newPod, newPodList, podAttributes, nil, nil)
	must(t, err)
	t.Cleanup(destroy)
	held.BeginLoad().End(t.Context(), 10)
	opts := apistorage.ListOptions{Predicate: apistorage.Everything, Recursive: true}
	if _, err := decorated.(*storage.Store).Select(t.Context(), "/pods", opts); !errors.Is(err, cache.ErrUnproven) {
		t.Errorf("list: %v", err)
	}
	initial := true
	opts.SendInitialEvents = &initial
	began := make(chan error, 1)
	go func() {
		_, err := decorated.(*storage.Store).Begin(t.Context(), "/pods", opts)
		began <- err
	}()
	held.Progressed(11)
	if err := <-began; err != nil {
		t.Errorf("watch-list: %v", err)
	}
}
