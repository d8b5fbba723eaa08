package storage_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// TestOldRevisionKeepsNewestBytes checks that the encoded bytes of the newest revision
// survive a list at an old one.
func TestOldRevisionKeepsNewestBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	old := f.create(t, "a")
	f.create(t, "b")
	decoded := 0
	form, err := encode.NewForm(encode.Config{
		Decode: func(e *entry.Entry) (runtime.Object, error) {
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
		l := encode.List{Form: form, Runs: f.Resource().Snapshot().Runs("")}
		// The length is the length of the encoded items, so this encodes all of them.
		_, err := l.LongerThan(1 << 20)
		must(t, err)
	}
	must(t, f.GetList(t.Context(), "/pods", apistorage.ListOptions{
		ResourceVersion: old.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		Predicate: apistorage.Everything, Recursive: true,
	}, &example.PodList{}))
	list()
	first := decoded
	// One object is added. The bytes of the others come from the leaf before.
	f.create(t, "c")
	list()
	if first != 2 || decoded != 3 {
		t.Fatalf("%d objects were decoded by the first list and %d by both, want 2 and 3", first, decoded)
	}
}
