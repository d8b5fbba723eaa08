package storage_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/apis/example"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
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
