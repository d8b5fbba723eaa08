package storage_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/storage"
)

// slowSource is at a revision, and makes no progress known.
type slowSource int64

func (s slowSource) Revision(context.Context) (int64, error) { return int64(s), nil }
func (s slowSource) RequestProgress(context.Context) error   { return nil }

// TestPassOnAfter reads from a store without etcd. What the cache cannot be shown to hold in time
// is left to another server, and the rest is answered.
func TestPassOnAfter(t *testing.T) {
	t.Parallel()
	const loaded = 10
	source := slowSource(loaded)
	held := cache.New(cache.Config{})
	decorated := storeWithoutEtcd(t, &storage.Backend{Cache: held, Consistent: cache.NewConsistent(held, &source), PassOnAfter: 20 * time.Millisecond})
	reads := func(version string) error {
		opts := apistorage.ListOptions{ResourceVersion: version, Predicate: apistorage.Everything, Recursive: true}
		_, listed := decorated.Select(t.Context(), "/pods", opts)
		initial := true
		opts.SendInitialEvents = &initial
		_, began := decorated.Begin(t.Context(), "/pods", opts)
		if (listed == nil) != (began == nil) {
			t.Errorf("version %q: list %v, watch-list %v", version, listed, began)
		}
		return listed
	}
	if err := reads("0"); !errors.Is(err, cache.ErrNotReady) {
		t.Errorf("before the load: %v", err)
	}
	held.BeginLoad().End(t.Context(), loaded)
	for _, version := range []string{"", "0", "10"} {
		if err := reads(version); err != nil {
			t.Errorf("version %q at revision %d: %v", version, loaded, err)
		}
	}
	source = loaded + 1
	for version, want := range map[string]error{"": cache.ErrUnproven, "0": nil, "11": cache.ErrUnproven} {
		if err := reads(version); !errors.Is(err, want) {
			t.Errorf("version %q behind the source: %v, want %v", version, err, want)
		}
	}
	if err := decorated.Create(t.Context(), "/pods/a", newPod(), newPod(), 0); err == nil {
		t.Error("a pod was created without etcd")
	}
}

// TestTokensExpireWithoutEtcd continues a list of a quiet resource: what is older than the history
// window is left to the upstream, which may have compacted it.
func TestTokensExpireWithoutEtcd(t *testing.T) {
	t.Parallel()
	const window = time.Minute
	source, now := slowSource(20), clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	held := cache.New(cache.Config{Clock: now, HistoryWindow: window})
	decorated := storeWithoutEtcd(t, &storage.Backend{Cache: held, Consistent: cache.NewConsistent(held, &source), PassOnAfter: time.Minute})
	held.BeginLoad().End(t.Context(), 10)
	held.Progressed(20)
	reads := func(version string) error {
		_, err := decorated.Select(t.Context(), "/pods", apistorage.ListOptions{
			ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact, Predicate: apistorage.Everything, Recursive: true,
		})
		return err
	}
	for age := time.Duration(0); age < window; age += window / 4 {
		held.Expire()
		if err := reads("10"); err != nil {
			t.Errorf("revision 10 after %v: %v", age, err)
		}
		now.SetTime(now.Now().Add(window / 4))
	}
	held.Expire()
	for version, want := range map[string]error{"10": cache.ErrExpired, "20": nil} {
		if err := reads(version); !errors.Is(err, want) {
			t.Errorf("revision %s after %v: %v, want %v", version, window, err, want)
		}
	}
}

// unreadSource is a slowSource whose contents cannot be read.
type unreadSource struct{ slowSource }

func (unreadSource) ProgressWithin() time.Duration { return 0 }

func (unreadSource) Contents(context.Context) ([]feed.Object, int64, error) {
	return nil, 0, errors.ErrUnsupported
}

func (unreadSource) Contradict(error) {}

// TestWatchPassOnAfter has a proof that comes too late for reads that cost little, and in time
// for lists and watch-lists of several megabytes, and for many watch-lists within a second.
func TestWatchPassOnAfter(t *testing.T) {
	t.Parallel()
	all := apistorage.ListOptions{Predicate: apistorage.Everything, Recursive: true}
	page, label, watchList, watch := all, all, all, all
	page.Predicate.Limit = 1
	label.Predicate.Label = labels.SelectorFromSet(labels.Set{"a": "b"})
	watchList.SendInitialEvents, watch.SendInitialEvents = new(true), new(false)
	for name, c := range map[string]struct {
		objectBytes int
		opts        apistorage.ListOptions
		// before is how many such watches began a moment before.
		before int
		waits  bool
	}{
		"few bytes":                                {1 << 10, all, 0, false},
		"many bytes":                               {3 << 20, all, 0, true},
		"a page of many bytes":                     {3 << 20, page, 0, false},
		"a label of many bytes":                    {3 << 20, label, 0, false},
		"watch-list":                               {1 << 10, watchList, 0, false},
		"watch-list of many bytes":                 {3 << 20, watchList, 0, true},
		"watch-list after many":                    {1 << 10, watchList, 1000, true},
		"watch without initial events":             {3 << 20, watch, 0, false},
		"watch without initial events, after many": {3 << 20, watch, 1000, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				held, source := cache.New(cache.Config{}), unreadSource{11}
				consistent := cache.NewConsistent(held, source)
				prover := cache.NewProver(held, consistent, source)
				store := storeWithoutEtcd(t, &storage.Backend{Cache: held, Consistent: consistent, Prover: prover, PassOnAfter: 1, WatchPassOnAfter: time.Minute})
				load := held.BeginLoad()
				load.Add(t.Context(), []feed.Object{storedPod(t, "a", c.objectBytes), storedPod(t, "b", c.objectBytes)})
				load.End(t.Context(), 10)
				for range c.before {
					prover.AddWatchList(2)
				}
				proof := time.AfterFunc(time.Second, func() { held.Progressed(11) })
				var err error
				if c.opts.SendInitialEvents != nil {
					_, err = store.Begin(t.Context(), "/pods", c.opts)
				} else {
					_, err = store.Select(t.Context(), "/pods", c.opts)
				}
				early := proof.Stop()
				switch {
				case c.waits && err != nil:
					t.Errorf("got %v", err)
				case !c.waits && (!early || !errors.Is(err, cache.ErrUnproven)):
					t.Errorf("got %v, before the proof: %v; want %v before it", err, early, cache.ErrUnproven)
				}
				<-time.After(10 * time.Second) // requests for progress go on for as long
			})
		})
	}
}

// storeWithoutEtcd decorates a store of pods.
func storeWithoutEtcd(t *testing.T, backend *storage.Backend) *storage.Store {
	t.Helper()
	decorator := storage.Decorator{Backend: func(*storagebackend.ConfigForResource) (*storage.Backend, error) { return backend, nil }}
	config := storagebackend.NewDefaultConfig(pathPrefix, podCodec())
	decorated, destroy, err := decorator.Decorate(config.ForResource(schema.GroupResource{Resource: "pods"}), "/pods/",
		nil, newPod, newPodList, podAttributes, nil, nil)
	must(t, err)
	t.Cleanup(destroy)
	return decorated.(*storage.Store)
}

// storedPod is what etcd has of a pod of a size.
func storedPod(t *testing.T, name string, size int) feed.Object {
	t.Helper()
	pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{"size": strings.Repeat("x", size)}}}
	value, err := runtime.Encode(podCodec(), pod)
	must(t, err)
	return feed.Object{Key: []byte(pathPrefix + "/pods/ns/" + name), Value: value, Revision: 5}
}

// provingSource is a source that is ahead of its cache, and makes no progress known.
type provingSource struct {
	slowSource
	objects []feed.Object
	t       *testing.T
}

func (s *provingSource) ProgressWithin() time.Duration { return 0 }

func (s *provingSource) Contents(context.Context) ([]feed.Object, int64, error) {
	return s.objects, int64(s.slowSource), nil
}

func (s *provingSource) Contradict(err error) { s.t.Error(err) }

// TestProvenState has many reads of a store whose source tells of no progress. They are answered
// with the state that the source was seen to have, at the revision at which it has it.
func TestProvenState(t *testing.T) {
	t.Parallel()
	source := &provingSource{slowSource: 20, objects: []feed.Object{storedPod(t, "a", 1), storedPod(t, "b", 1)}, t: t}
	held := cache.New(cache.Config{})
	consistent := cache.NewConsistent(held, source)
	store := storeWithoutEtcd(t, &storage.Backend{Cache: held, Consistent: consistent, Prover: cache.NewProver(held, consistent, source), PassOnAfter: time.Minute})
	load := held.BeginLoad()
	load.Add(t.Context(), source.objects)
	load.End(t.Context(), 10)
	all := apistorage.ListOptions{Predicate: apistorage.Everything, Recursive: true}
	deadline := time.Now().Add(30 * time.Second)
	for name, read := range map[string]func() error{
		"list": func() error {
			page, err := store.Select(t.Context(), "/pods", all)
			if err == nil && (page.Revision != 20 || page.Count != 2) {
				t.Errorf("a list is of revision %d with %d objects, want 20 and 2", page.Revision, page.Count)
			}
			return err
		},
		"get": func() error {
			found, err := store.Find(t.Context(), "/pods/ns/a", "")
			if err == nil && found.Entries[found.From].Revision != 5 {
				t.Errorf("got the object at revision %d, want 5", found.Entries[found.From].Revision)
			}
			return err
		},
		"get of none": func() error {
			_, err := store.Find(t.Context(), "/pods/ns/c", "")
			if apistorage.IsNotFound(err) {
				return nil
			}
			return err
		},
	} {
		for err := read(); err != nil; err = read() {
			if !errors.Is(err, cache.ErrUnproven) || time.Now().After(deadline) {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if got := held.Progress().Revision(); got != 10 {
		t.Errorf("the cache has reached revision %d, want 10", got)
	}
}
