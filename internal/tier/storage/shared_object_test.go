package storage_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
)

// TestWatchersShareObjects checks that an event is encoded once for all watchers of an
// encoding, and that an encoder cannot change it for the others.
func TestWatchersShareObjects(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	first := f.create(t, "first")
	const watchers = 8
	var encodings atomic.Int64
	encode := func(obj runtime.Object, w io.Writer) error {
		encodings.Add(1)
		pod := obj.(*example.Pod)
		_, err := fmt.Fprint(w, pod.Name, "@", pod.ResourceVersion)
		// Encoders may change the object, such as its kind.
		pod.Name = "changed"
		return err
	}
	objects := make([]runtime.CacheableObject, watchers)
	for i := range objects {
		w := f.watchFrom(t, first.ResourceVersion)
		if i == 0 {
			f.create(t, "second")
		}
		e, open := next(t, w)
		if !open {
			t.Fatal("watch ended")
		}
		objects[i] = e.Object.(runtime.CacheableObject)
	}
	var readers sync.WaitGroup
	for _, o := range objects {
		readers.Go(func() {
			var out bytes.Buffer
			if err := o.CacheEncode("test", encode, &out); err != nil {
				t.Error(err)
			}
			want := "second@" + o.GetObject().(*example.Pod).ResourceVersion
			if out.String() != want {
				t.Errorf("encoded %q, want %q", &out, want)
			}
		})
	}
	readers.Wait()
	if n := encodings.Load(); n != 1 {
		t.Errorf("%d encodings for %d watchers, want 1", n, watchers)
	}
	if name := objects[0].GetObject().(*example.Pod).Name; name != "second" {
		t.Errorf("an encoder changed the shared object to %q", name)
	}
	broken := errors.New("broken")
	err := objects[0].CacheEncode("broken", func(runtime.Object, io.Writer) error { return broken }, io.Discard)
	if !errors.Is(err, broken) {
		t.Errorf("CacheEncode = %v, want the encoder's error", err)
	}
}
