package storage_test

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/millrace/millrace/internal/storage"
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
