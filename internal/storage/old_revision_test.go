package storage_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/resource"
)

// TestOldRevisionKeepsNewestBytes: a list at an old revision must not cost the
// newest one its encoded bytes.
func TestOldRevisionKeepsNewestBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	old := f.create(t, "a")
	f.create(t, "b")
	decoded := 0
	form, err := encode.NewForm(encode.Config{
		Decode: func(e *resource.Entry) (runtime.Object, error) {
			decoded++
			return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": e.Name()}}}, nil
		},
		List: encode.PlainList(func() runtime.Object {
			return &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "PodList"}}
		}),
		Encoder: unstructured.UnstructuredJSONScheme, Framing: encode.JSON, MediaType: "application/json",
		Budget: encode.NewBudget(1 << 20),
	})
	must(t, err)
	list := func() {
		t.Helper()
		l := encode.List{Form: form, Spans: f.Resource().Snapshot().Spans("")}
		// The length is that of the items: they are encoded or remembered.
		_, err := l.LongerThan(1 << 20)
		must(t, err)
	}
	must(t, f.GetList(t.Context(), "/pods", apistorage.ListOptions{
		ResourceVersion: old.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		Predicate: apistorage.Everything, Recursive: true,
	}, &example.PodList{}))
	list()
	first := decoded
	// One item changes; the other's bytes come from the leaf before.
	f.create(t, "c")
	list()
	if first != 2 || decoded != 3 {
		t.Fatalf("%d objects were decoded at first and %d in all, want 2 and 3", first, decoded)
	}
}
