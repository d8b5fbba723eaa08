package storage_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/apis/example"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/tier/cache"
)

// oneCorruptTransformer cannot decrypt one object.
type oneCorruptTransformer struct {
	value.Transformer
	name string
}

func (c oneCorruptTransformer) TransformFromStorage(ctx context.Context, data []byte, key value.Context) ([]byte, bool, error) {
	if strings.HasSuffix(string(key.AuthenticatedData()), c.name) {
		return nil, false, errors.New("bits flipped")
	}
	return c.Transformer.TransformFromStorage(ctx, data, key)
}

// TestListOfObjectThatOnlyEtcdReads lists objects of which the cache could not read one.
// etcd's storage then fills the list: each object must be there once.
func TestListOfObjectThatOnlyEtcdReads(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	for _, name := range []string{"a", "b", "c"} {
		f.create(t, name)
	}
	var corrupt value.Transformer = oneCorruptTransformer{*f.transformer.cache.Load(), "/b"}
	f.transformer.cache.Store(&corrupt)
	f.reload()
	var list example.PodList
	must(t, f.GetList(t.Context(), "/pods", apistorage.ListOptions{Predicate: apistorage.Everything, Recursive: true}, &list))
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != "a b c" {
		t.Errorf("the list has %s", got)
	}
}

// panickingTransformer panics for one object.
type panickingTransformer struct {
	value.Transformer
	name string
}

func (p panickingTransformer) TransformFromStorage(ctx context.Context, data []byte, key value.Context) ([]byte, bool, error) {
	if strings.HasSuffix(string(key.AuthenticatedData()), p.name) {
		panic("no such key")
	}
	return p.Transformer.TransformFromStorage(ctx, data, key)
}

// TestObjectThatPanics reads objects of which the decryption of one panics: in the cache, and
// in Kubernetes' own store, which answers for it. Others are read as before.
func TestObjectThatPanics(t *testing.T) {
	t.Parallel()
	counter := panics.New(slog.New(slog.DiscardHandler))
	f := newFixture(t, setup{cache: cache.Config{Panics: counter}})
	for _, name := range []string{"a", "b", "c"} {
		f.create(t, name)
	}
	var corrupt value.Transformer = panickingTransformer{*f.transformer.cache.Load(), "/b"}
	f.transformer.cache.Store(&corrupt)
	f.transformer.etcd.Store(&corrupt)
	f.reload()
	var pod example.Pod
	must(t, f.Get(t.Context(), "/pods/test/a", apistorage.GetOptions{}, &pod))
	if err := f.Get(t.Context(), "/pods/test/b", apistorage.GetOptions{}, &pod); err == nil || !strings.Contains(err.Error(), "no such key") {
		t.Errorf("an object that panics was read with %v", err)
	}
	var list example.PodList
	if err := f.GetList(t.Context(), "/pods", apistorage.ListOptions{Predicate: apistorage.Everything, Recursive: true}, &list); err == nil {
		t.Error("a list with an object that panics was read without an error")
	}
	if got := f.Resource().Snapshot().Unreadable; got != 1 {
		t.Errorf("%d objects are unreadable, want 1", got)
	}
	if counts, last := counter.Counts(); counts[panics.Decode] < 2 || last.Text != "no such key" {
		t.Errorf("counted %v, the last is %q: want the cache's and those of Kubernetes' store", counts, last.Text)
	}
}
