package storage_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
)

// names lists all pods as a user.
func (f *fixture) names(ctx context.Context) (string, error) {
	var list example.PodList
	err := f.GetList(ctx, "/pods", apistorage.ListOptions{Predicate: apistorage.Everything, Recursive: true}, &list)
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	return strings.Join(names, " "), err
}

// TestOwnInformersDoWithout has an object that cannot be read and one that is not usable. The
// server's own informers see neither, in LISTs and in watches. Others meet the error.
func TestOwnInformersDoWithout(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	own := request.WithUser(t.Context(), &user.DefaultInfo{Name: user.APIServerUser})
	for _, name := range []string{"a", "b", unusablePod} {
		f.create(t, name)
	}
	if got, err := f.names(own); err != nil || got != "a b" {
		t.Errorf("the server lists %q (%v), want a and b", got, err)
	}
	if got, err := f.names(t.Context()); err != nil || got != "a b "+unusablePod {
		t.Errorf("others list %q (%v), want all", got, err)
	}
	var corrupt value.Transformer = oneCorruptTransformer{*f.transformer.cache.Load(), "/b"}
	f.transformer.set(corrupt)
	f.reload()
	if got, err := f.names(own); err != nil || got != "a" {
		t.Errorf("the server lists %q (%v), want a", got, err)
	}
	if got, err := f.names(t.Context()); err == nil {
		t.Errorf("others list %q, want an error", got)
	}
	w, err := f.Watch(own, "/pods", apistorage.ListOptions{ResourceVersion: "0", Predicate: apistorage.Everything, Recursive: true})
	must(t, err)
	defer w.Stop()
	f.create(t, "c")
	for _, want := range []string{"a", "c"} {
		e, _ := next(t, w)
		obj := e.Object
		if shared, ok := obj.(runtime.CacheableObject); ok {
			obj = shared.GetObject()
		}
		pod, ok := obj.(*example.Pod)
		if !ok || e.Type != watch.Added || pod.Name != want {
			t.Errorf("the server sees %s %+v, want %s", e.Type, obj, want)
		}
	}
}
