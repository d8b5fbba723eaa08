package storage_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/tier/cache"
)

// TestWatchAfterRestart starts a server over an etcd with a past. Watches get events from
// that past, and nothing is answered before the newest revision is loaded.
func TestWatchAfterRestart(t *testing.T) {
	t.Parallel()
	before := newFixture(t, setup{})
	first := before.create(t, "first")
	want := []string{
		fmt.Sprint("ADDED second ", before.create(t, "second").ResourceVersion),
		fmt.Sprint("ADDED third ", before.create(t, "third").ResourceVersion),
	}
	gone := &example.Pod{}
	must(t, before.Delete(t.Context(), "/pods/test/second", gone, nil, apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{}))
	want = append(want, fmt.Sprint("DELETED second ", gone.ResourceVersion))
	// etcd sends a past of several thousand revisions in several responses.
	for range 2500 {
		before.increaseRV(t.Context(), t)
		_, err := before.client.KV.Put(t.Context(), pathPrefix+"/other/key", "value")
		must(t, err)
	}
	newest := before.increaseRV(t.Context(), t)
	before.endFeed()

	f := newFixtureOver(t, before.client, cache.Config{})
	if f.firstRevision < newest || f.cache.Ready() != nil {
		t.Errorf("the cache answers at revision %d (%v), want %d or newer", f.firstRevision, f.cache.Ready(), newest)
	}
	want = append(want, fmt.Sprint("ADDED fourth ", f.create(t, "fourth").ResourceVersion))
	w := f.watchFrom(t, first.ResourceVersion)
	for _, line := range want {
		e, open := next(t, w)
		if !open || e.Type == watch.Error {
			t.Fatalf("watch sent %v instead of %s", e, line)
		}
		pod, err := meta.Accessor(e.Object)
		must(t, err)
		if got := fmt.Sprint(e.Type, " ", pod.GetName(), " ", pod.GetResourceVersion()); got != line {
			t.Fatalf("event is %s, want %s", got, line)
		}
	}
}
