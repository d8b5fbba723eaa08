package storage_test

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/storage"
	"github.com/millrace/millrace/internal/wire/entry"
)

// TestCountKeys counts the keys of a resource, without those of a resource whose name
// begins like its own.
func TestCountKeys(t *testing.T) {
	f := newFixture(t, setup{})
	for _, key := range []string{"/things/a/b", "/things/a/c", "/thingsmore/a/b", "/thing/a"} {
		_, err := f.client.KV.Put(t.Context(), pathPrefix+"/group.example"+key, "{}")
		must(t, err)
	}
	config := storagebackend.NewDefaultConfig(pathPrefix, f.codec).ForResource(schema.GroupResource{Group: "group.example", Resource: "things"})
	gone := errors.New("no etcd")
	var failure error
	decorator := storage.Decorator{Backend: func(*storagebackend.ConfigForResource) (*storage.Backend, error) {
		return &storage.Backend{Client: f.client}, failure
	}}
	for resource, want := range map[string]int64{"group.example/things": 2, "group.example/thing": 1, "group.example/others": 0} {
		if n, err := decorator.CountKeys(t.Context(), config, resource); n != want || err != nil {
			t.Errorf("%s: %d keys, %v; want %d", resource, n, err, want)
		}
	}
	failure = gone
	if _, err := decorator.CountKeys(t.Context(), config, "group.example/things"); !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}
}

// TestScannersAreToldOfMetadata makes stores of kinds with and without selectable fields of
// their own.
func TestScannersAreToldOfMetadata(t *testing.T) {
	held := cache.New(cache.Config{})
	backend := &storage.Backend{Cache: held, Consistent: cache.NewConsistent(held, new(slowSource))}
	var told []bool
	decorator := storage.Decorator{
		Backend: func(*storagebackend.ConfigForResource) (*storage.Backend, error) { return backend, nil },
		Scan: func(gr schema.GroupResource, empty runtime.Object, onlyMetadata bool) func([]byte) (entry.Scan, bool) {
			if _, ok := empty.(*example.Pod); !ok || gr.Resource != "pods" {
				t.Errorf("asked for %v, %T", gr, empty)
			}
			told = append(told, onlyMetadata)
			return nil
		},
	}
	config := storagebackend.NewDefaultConfig(pathPrefix, podCodec()).ForResource(schema.GroupResource{Resource: "pods"})
	for _, attributes := range []apistorage.AttrFunc{podAttributes, apistorage.DefaultNamespaceScopedAttr, apistorage.DefaultClusterScopedAttr} {
		_, destroy, err := decorator.Decorate(config, "/pods/", nil, newPod, newPodList, attributes, nil, nil)
		must(t, err)
		destroy()
	}
	if want := []bool{false, true, true}; !slices.Equal(told, want) {
		t.Errorf("told that there is only metadata: %v, want %v", told, want)
	}
}
