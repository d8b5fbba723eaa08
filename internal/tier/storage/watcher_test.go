package storage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	apistorage "k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/millrace/millrace/internal/tier/cache"
)

func podNamed(name string) *example.Pod {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: name}}
}

func (f *fixture) create(t *testing.T, name string) *example.Pod {
	t.Helper()
	out := &example.Pod{}
	must(t, caughtUpStore{f}.Create(t.Context(), "/pods/test/"+name, podNamed(name), out, 0))
	return out
}

func next(t *testing.T, w watch.Interface) (watch.Event, bool) {
	t.Helper()
	select {
	case e, open := <-w.ResultChan():
		return e, open
	case <-time.After(30 * time.Second):
		t.Fatal("watch is silent")
	}
	return watch.Event{}, false
}

func (f *fixture) watchFrom(t *testing.T, resourceVersion string) watch.Interface {
	t.Helper()
	w, err := f.Watch(t.Context(), "/pods", apistorage.ListOptions{ResourceVersion: resourceVersion, Predicate: apistorage.Everything, Recursive: true})
	must(t, err)
	t.Cleanup(w.Stop)
	return w
}

// TestWatchEndsAtUnreadableObject checks that a watch ends with an error at an object
// that cannot be read. The suite's own test reloads the cache, which expires the watch.
func TestWatchEndsAtUnreadableObject(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	first := f.create(t, "first")
	modified, original := f.transformer.modify(func(*storagetesting.PrefixTransformer) value.Transformer {
		return storagetesting.NewPrefixTransformer([]byte("other!"), false)
	})
	f.transformer.etcd.Store(&modified)
	f.create(t, "unreadable")
	f.transformer.etcd.Store(&original)
	f.create(t, "behind")

	w := f.watchFrom(t, first.ResourceVersion)
	if e, _ := next(t, w); e.Type != watch.Error {
		t.Fatalf("first event is %v, want an error", e)
	}
	if e, open := next(t, w); open {
		t.Fatalf("an event follows the error: %v", e)
	}

	// The error of its deletion is Kubernetes' own.
	resp, err := f.client.KV.Delete(t.Context(), pathPrefix+"/pods/test/unreadable")
	must(t, err)
	must(t, f.cache.Progress().Wait(t.Context(), resp.Header.Revision))
	w = f.watchFrom(t, fmt.Sprint(resp.Header.Revision-1))
	e, _ := next(t, w)
	status, ok := e.Object.(*metav1.Status)
	if !ok || status.Reason != metav1.StatusReasonStoreReadError {
		t.Fatalf("deletion of an unreadable object is sent as %v, want reason StoreReadError", e)
	}
}

// TestWatchOvertakenByHistory checks that a watch whose client reads too slowly ends with
// 410, so that the client lists again.
func TestWatchOvertakenByHistory(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{cache: cache.Config{HistoryBytes: 2000}})
	first := f.create(t, "first")
	w := f.watchFrom(t, first.ResourceVersion)
	for i := range 60 {
		f.create(t, fmt.Sprintf("pod-%02d", i))
	}
	received := 0
	for {
		e, open := next(t, w)
		if !open {
			t.Fatalf("watch ended after %d events without an error", received)
		}
		if e.Type == watch.Error {
			if err := apierrors.FromObject(e.Object); !apierrors.IsResourceExpired(err) {
				t.Fatalf("watch ended with %v, want 410", err)
			}
			return
		}
		accessor, err := meta.Accessor(e.Object)
		must(t, err)
		if want := fmt.Sprintf("pod-%02d", received); accessor.GetName() != want {
			t.Fatalf("event %d is of %s, want %s", received, accessor.GetName(), want)
		}
		received++
	}
}

// TestListAtOldRevision checks that a list at an exact revision is answered from the
// cache while it holds the events since, and from etcd afterwards.
func TestListAtOldRevision(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	f.create(t, "a")
	old := f.create(t, "b")
	f.create(t, "c")
	must(t, f.Delete(t.Context(), "/pods/test/a", &example.Pod{}, nil, apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{}))

	list := func(key string) (names string, requests int) {
		t.Helper()
		ctx := context.WithValue(t.Context(), storagetesting.RecorderContextKey, key)
		out := &example.PodList{}
		must(t, f.GetList(ctx, "/pods", apistorage.ListOptions{
			ResourceVersion: old.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
			Predicate: apistorage.Everything, Recursive: true,
		}, out))
		if out.ResourceVersion != old.ResourceVersion {
			t.Errorf("list has resource version %s, want %s", out.ResourceVersion, old.ResourceVersion)
		}
		for _, pod := range out.Items {
			names += pod.Name
		}
		return names, len(f.recorder().ListRequestForKey(key))
	}
	if names, requests := list("cached"); names != "ab" || requests != 0 {
		t.Errorf("cache answers %q with %d requests to etcd, want ab with none", names, requests)
	}
	f.reload()
	if names, requests := list("forgotten"); names != "ab" || requests != 1 {
		t.Errorf("after a load the answer is %q with %d requests to etcd, want ab with 1", names, requests)
	}
}

// TestUnreadableObjectIsRepaired checks that lists fail with etcd's error while there is
// an object that cannot be read. Gets of others succeed, and so do lists once that
// object is deleted.
func TestUnreadableObjectIsRepaired(t *testing.T) {
	t.Parallel()
	f := newFixture(t, setup{})
	f.create(t, "good")
	modified, original := f.transformer.modify(func(*storagetesting.PrefixTransformer) value.Transformer {
		return storagetesting.NewPrefixTransformer([]byte("other!"), false)
	})
	f.transformer.etcd.Store(&modified)
	f.create(t, "bad")
	f.transformer.etcd.Store(&original)
	everything := apistorage.ListOptions{Predicate: apistorage.Everything, Recursive: true}
	err := f.GetList(t.Context(), "/pods", everything, &example.PodList{})
	if err == nil || !strings.Contains(err.Error(), "expected prefix") {
		t.Fatalf("list = %v, want etcd's own error", err)
	}
	must(t, f.Get(t.Context(), "/pods/test/good", apistorage.GetOptions{}, &example.Pod{}))
	_, err = f.client.KV.Delete(t.Context(), pathPrefix+"/pods/test/bad")
	must(t, err)
	out := &example.PodList{}
	must(t, f.GetList(t.Context(), "/pods", everything, out))
	if len(out.Items) != 1 || out.Items[0].Name != "good" {
		t.Fatalf("list holds %d objects, want the good one", len(out.Items))
	}
}
