package follow_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/feed/feedtest"
	"github.com/millrace/millrace/internal/replica/follow"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/source"
)

// patience bounds what takes milliseconds on an idle machine.
const patience = 30 * time.Second

// world is an upstream with one custom resource, and Resources that follow it.
type world struct {
	*testing.T
	upstream  *feedtest.APIServer
	server    *httptest.Server
	backends  *source.Backends
	resources *follow.Resources
	clock     *clocktesting.FakeClock
	cache     *cache.Cache
	resource  *cache.Resource
	key       follow.Key
}

func newWorld(t *testing.T, cfg follow.Config) *world {
	w := &world{T: t, upstream: feedtest.NewAPIHandler(feedtest.APIOptions{WatchLists: true}), clock: clocktesting.NewFakeClock(time.Now())}
	gadgets := feedtest.NewAPIHandler(feedtest.APIOptions{WatchLists: true})
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if !strings.HasPrefix(req.URL.Path, otherPath) {
			w.upstream.ServeHTTP(rw, req)
			return
		}
		other := req.Clone(req.Context())
		other.URL.Path = feedtest.CollectionPath
		gadgets.ServeHTTP(rw, other)
	}))
	t.Cleanup(w.server.Close)
	w.key = follow.Key{GroupResource: schema.GroupResource{Group: "x", Resource: "widgets"}}
	cfg.Client, cfg.Host, cfg.Clock, cfg.Logger = w.server.Client(), w.server.URL, w.clock, slog.New(slog.DiscardHandler)
	w.backends = &source.Backends{Cache: cache.Config{}, Logger: cfg.Logger, Failed: make(chan error, 1)}
	w.resources = follow.New(w.backends, cfg)
	backend, err := w.resources.Of(&storagebackend.ConfigForResource{GroupResource: w.key.GroupResource})
	if err != nil {
		t.Fatal(err)
	}
	w.cache = backend.Cache
	w.resource = w.cache.Register(cache.Spec{Prefix: feedtest.KeyPrefix, GroupResource: w.key.GroupResource})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); w.resources.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		w.server.CloseClientConnections()
		<-ended
	})
	return w
}

// follow asks for the resource as a read does.
func (w *world) follow(r follow.Request) follow.Refusal {
	w.Helper()
	r.Version = follow.Version{GroupVersionResource: w.key.WithVersion("v1")}
	_, why := w.resources.Follow(w.key, r)
	return why
}

// until waits for a condition, and sweeps meanwhile.
func (w *world) until(what string, condition func() bool) {
	w.Helper()
	timeout := time.After(patience)
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !condition() {
		w.clock.Step(10 * time.Millisecond)
		select {
		case <-poll.C:
		case <-timeout:
			w.Fatalf("%s: not within %v; the state is %s", what, patience, w.state())
		}
	}
}

func (w *world) state() follow.State { return w.resources.State(w.key) }

func (w *world) untilState(want follow.State) {
	w.Helper()
	w.until("state "+string(want), func() bool { return w.state() == want })
}

// pass lets time pass, second by second, as the sweep needs it.
func (w *world) pass(d time.Duration) {
	w.Helper()
	for ; d > 0; d -= time.Second {
		w.clock.Step(time.Second)
	}
}

// otherPath is the path of a second resource.
const otherPath = "/apis/other/v1/gadgets"

// followOther follows a second resource, which the same server answers.
func (w *world) followOther() follow.Key {
	w.Helper()
	key := follow.Key{GroupResource: schema.GroupResource{Group: "other", Resource: "gadgets"}}
	backend, err := w.resources.Of(&storagebackend.ConfigForResource{GroupResource: key.GroupResource})
	if err != nil {
		w.Fatal(err)
	}
	backend.Cache.Register(cache.Spec{Prefix: feedtest.KeyPrefix, GroupResource: key.GroupResource})
	w.resources.Follow(key, follow.Request{Version: follow.Version{GroupVersionResource: key.WithVersion("v1")}})
	w.until("the other resource follows", func() bool { return w.resources.State(key) == follow.Following })
	return key
}

// loaded follows the resource until the cache has the objects of the upstream.
func (w *world) loaded(r follow.Request) {
	w.Helper()
	if why := w.follow(r); why != "" {
		w.Fatalf("the resource is not followed: %s", why)
	}
	w.untilState(follow.Following)
}

// lost reports whether a watch from a revision has lost its place.
func (w *world) lost(revision int64) bool {
	_, _, err := w.resource.Log().Since(revision)
	return err != nil
}

// TestOutdatedIsLoadedAnew changes what objects are, as a definition's change does. Nothing of the
// former load is answered. The new load comes without a read, once the upstream is expected to
// have made the change.
func TestOutdatedIsLoadedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, follow.Config{})
	w.upstream.Put(t, "a", "one")
	w.resources.SetFollowAgain(func(key follow.Key) { w.follow(follow.Request{Custom: true}) })
	w.loaded(follow.Request{Custom: true})
	var loads atomic.Int64
	w.upstream.Intercept(func(_ http.ResponseWriter, req *http.Request) bool {
		if req.URL.Query().Get("sendInitialEvents") == "true" {
			loads.Add(1)
		}
		return false
	})
	w.resources.Outdated(w.key.GroupResource)
	if err := w.cache.Ready(); err == nil {
		t.Fatal("what was loaded before the change is answered")
	}
	if why := w.follow(follow.Request{}); why != "" || w.state() != follow.Absent {
		t.Fatalf("before the upstream has made the change the resource is %s, %q", w.state(), why)
	}
	w.pass(2 * time.Second)
	w.untilState(follow.Following)
	if n := loads.Load(); n != 1 {
		t.Errorf("%d loads after the change, want 1", n)
	}
}

// TestLateServerIsLoadedAgain makes the upstream serve a changed definition later than the replica
// expects. It then ends the watches of the former one, and the replica loads once more.
func TestLateServerIsLoadedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, follow.Config{})
	w.upstream.Put(t, "a", "one")
	w.resources.SetFollowAgain(func(follow.Key) { w.follow(follow.Request{Custom: true}) })
	w.loaded(follow.Request{Custom: true})
	ends := make(chan struct{})
	var loads atomic.Int64
	w.upstream.Intercept(func(rw http.ResponseWriter, req *http.Request) bool {
		const ours = "X-Ends-Early"
		if req.Header.Get(ours) != "" || req.URL.Query().Get("sendInitialEvents") != "true" || loads.Add(1) > 1 {
			return false
		}
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		go func() {
			defer cancel()
			select {
			case <-ends:
			case <-ctx.Done():
			}
		}()
		ending := req.WithContext(ctx)
		ending.Header.Set(ours, "1")
		w.upstream.ServeHTTP(rw, ending)
		return true
	})
	w.resources.Outdated(w.key.GroupResource)
	w.pass(2 * time.Second)
	w.untilState(follow.Following)
	close(ends)
	w.until("the second load", func() bool { return loads.Load() == 2 })
	w.untilState(follow.Following)
}

// TestUnservableResource never gets an answer to the first load. Its reads are passed on untouched
// at once, and the upstream is asked again after some minutes.
func TestUnservableResource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, follow.Config{})
	w.followOther()
	var asked atomic.Int64
	w.upstream.Intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
		asked.Add(1)
		rw.WriteHeader(http.StatusForbidden)
		return true
	})
	w.follow(follow.Request{Named: true})
	w.untilState(follow.Refused)
	if why := w.follow(follow.Request{}); why != "refused" {
		t.Errorf("a read is passed on for %q", why)
	}
	want := follow.RefusedResource{Key: w.key, Named: true, Why: "refused"}
	if got := w.resources.RefusedResources(); len(got) != 1 || got[0] != want || !strings.Contains(got[0].Why.Text(), "allow both") {
		t.Errorf("refused are %v", got)
	}
	before := asked.Load()
	w.pass(4 * time.Minute)
	w.follow(follow.Request{})
	if n := asked.Load() - before; n > 0 {
		t.Errorf("the upstream was asked %d times within 4 min", n)
	}
	w.upstream.Intercept(nil)
	w.pass(2 * time.Minute)
	w.loaded(follow.Request{})
	if got := w.resources.RefusedResources(); len(got) > 0 {
		t.Errorf("refused are %v", got)
	}
}

// TestSilentResourceIsGivenUp makes the feed of one resource fail while another one follows.
// Within 90 s its watches end, and its reads are passed on. It is followed again when it can be.
func TestSilentResourceIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, follow.Config{})
	revision := w.upstream.Put(t, "a", "one")
	w.resources.SetFollowAgain(func(follow.Key) { w.follow(follow.Request{Named: true}) })
	w.loaded(follow.Request{Named: true})
	other := w.followOther()
	w.upstream.Intercept(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
	w.server.CloseClientConnections()
	w.untilState(follow.Doubtful)
	w.until("the other resource follows again", func() bool { return w.resources.State(other) == follow.Following })
	w.pass(60 * time.Second)
	if w.lost(revision) {
		t.Error("watches have ended after less than 90 s")
	}
	w.until("the resource is given up", func() bool {
		w.pass(time.Second)
		return w.state() == follow.Refused
	})
	if why := w.follow(follow.Request{}); why == "" {
		t.Error("a read is answered")
	}
	if !w.lost(revision - 1) {
		t.Error("a watch goes on")
	}
	w.upstream.Intercept(nil)
	w.pass(60 * time.Second)
	w.untilState(follow.Following)
}

// TestUnreadResourceGoes leaves resources unread. One that is named stays.
func TestUnreadResourceGoes(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{false, true} {
		w := newWorld(t, follow.Config{DropAfter: time.Hour})
		w.upstream.Put(t, "a", "one")
		w.loaded(follow.Request{Named: named})
		w.pass(59 * time.Minute)
		w.follow(follow.Request{})
		w.pass(59 * time.Minute)
		if got := w.state(); got != follow.Following {
			t.Fatalf("a resource that was read 59 min ago is %s", got)
		}
		if w.pass(2 * time.Minute); named {
			w.pass(time.Hour)
			if got := w.state(); got != follow.Following {
				t.Errorf("a named resource is %s", got)
			}
			continue
		}
		w.untilState(follow.Absent)
		w.until("its objects are gone", func() bool { w.pass(time.Second); return w.resource.Snapshot().Len() == 0 })
		w.loaded(follow.Request{})
		if got := w.resource.Snapshot().Len(); got != 1 {
			t.Errorf("followed again, it has %d objects, want 1", got)
		}
	}
}

// TestMemoryIsBounded follows what does not fit. Its load ends, its reads are passed on, and what
// is named is not bounded.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, follow.Config{MaxBytes: 100_000})
	for i := range 2000 {
		w.upstream.Put(t, fmt.Sprintf("name-%d", i), strings.Repeat("x", 100))
	}
	if why := w.follow(follow.Request{}); why != "" {
		t.Fatalf("nothing is held, and the resource is refused: %s", why)
	}
	w.untilState(follow.Refused)
	if n := w.resource.Snapshot().Len(); n != 0 {
		t.Errorf("%d objects are held", n)
	}
	if why := w.follow(follow.Request{}); why != "memory" {
		t.Errorf("the resource is passed on for %q", why)
	}
	w.pass(6 * time.Minute)
	w.loaded(follow.Request{Named: true})
	if n := w.resource.Snapshot().Len(); n != 2000 {
		t.Errorf("%d objects of the named resource, want 2000", n)
	}
}

// TestStatesAreReported reads the metrics of a resource that is followed, and then refused.
func TestStatesAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, follow.Config{MaxBytes: 1 << 20})
	w.upstream.Put(t, "a", "one")
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(w.resources.Collector())
	value := func(family, label string) float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == family && (label == "" || m.GetLabel()[0].GetValue() == label) {
					return m.GetGauge().GetValue()
				}
			}
		}
		t.Fatalf("no %s of %q", family, label)
		return 0
	}
	const resources, bytes = "millrace_replica_followed_resources", "millrace_replica_followed_bytes"
	if n := value(resources, "absent"); n != 1 || value(bytes, "") != 0 {
		t.Errorf("%v are absent, with %v bytes", n, value(bytes, ""))
	}
	w.loaded(follow.Request{})
	if n := value(resources, "following"); n != 1 || value(bytes, "") == 0 || value("millrace_replica_followed_limit_bytes", "") != 1<<20 {
		t.Errorf("%v are followed, with %v bytes", n, value(bytes, ""))
	}
}
