package storage_test

import (
	"io"
	"sync/atomic"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/conn/growstack"
)

// countingCodec counts encodings.
type countingCodec struct {
	runtime.Codec
	encoded *atomic.Int64
}

func (c countingCodec) Encode(obj runtime.Object, w io.Writer) error {
	c.encoded.Add(1)
	return c.Codec.Encode(obj, w)
}

// TestSuggestionsAreNotEncoded checks that a write encodes the changed object and not
// the suggestion before, and that it writes the change.
func TestSuggestionsAreNotEncoded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	var encoded atomic.Int64
	f.codec = countingCodec{f.codec, &encoded}
	f.decorate(t)
	f.create(t, "a")
	for _, node := range []string{"one", "one", "two"} {
		must(t, f.GetList(t.Context(), "/pods", apistorage.ListOptions{Predicate: apistorage.Everything, Recursive: true}, &example.PodList{}))
		before := encoded.Load()
		var written example.Pod
		must(t, f.GuaranteedUpdate(t.Context(), "/pods/test/a", &written, false, nil, apistorage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			pod := obj.(*example.Pod)
			pod.Spec.NodeName = node // obj is the suggestion
			return pod, nil
		}), nil))
		if n := encoded.Load() - before; n != 1 {
			t.Errorf("a write encoded %d times, want once", n)
		}
		var stored example.Pod
		must(t, f.Get(t.Context(), "/pods/test/a", apistorage.GetOptions{}, &stored))
		if written.Spec.NodeName != node || stored.Spec.NodeName != node || stored.ResourceVersion != written.ResourceVersion {
			t.Errorf("wrote %q at %s, but %q at %s is stored", written.Spec.NodeName, written.ResourceVersion, stored.Spec.NodeName, stored.ResourceVersion)
		}
	}
	before := encoded.Load()
	must(t, f.Delete(t.Context(), "/pods/test/a", &example.Pod{}, nil, apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{}))
	if n := encoded.Load() - before; n != 0 {
		t.Errorf("a deletion encoded %d times, want never", n)
	}
}

// TestStackOfAnUpdate updates in a new goroutine, as Kubernetes does, and checks that
// its stack has grown before tryUpdate is called.
func TestStackOfAnUpdate(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	f.create(t, "a")
	moved := make(chan bool, 1)
	done := make(chan error)
	go func() {
		done <- f.GuaranteedUpdate(t.Context(), "/pods/test/a", &example.Pod{}, false, nil, apistorage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			var local byte
			address := func() uintptr { return uintptr(unsafe.Pointer(&local)) }
			before := address()
			growstack.GrowTwice(0)
			moved <- before != address()
			return obj, nil
		}), nil)
	}()
	must(t, <-done)
	if <-moved {
		t.Error("the stack grew during the update, so it was too small before")
	}
}
