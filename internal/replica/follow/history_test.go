package follow_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/feedtest"
	"github.com/millrace/millrace/internal/replica/follow"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/source"
)

// followDefinitions follows definitions, which a server of their own answers.
func (w *world) followDefinitions(answers *feedtest.APIServer) {
	w.Helper()
	key := follow.Key{GroupResource: schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}}
	backend, err := w.resources.Of(&storagebackend.ConfigForResource{GroupResource: key.GroupResource})
	if err != nil {
		w.Fatal(err)
	}
	backend.Cache.Register(cache.Spec{Prefix: feedtest.KeyPrefix, GroupResource: key.GroupResource})
	w.route("/apis/apiextensions.k8s.io/", answers)
	w.resources.Follow(key, follow.Request{Version: follow.Version{GroupVersionResource: key.WithVersion("v1")}, Needed: true})
	w.until("definitions are followed", func() bool { return w.resources.State(key) == follow.Following })
}

// route has another server answer for paths.
func (w *world) route(prefix string, answers *feedtest.APIServer) {
	w.upstream.Intercept(func(rw http.ResponseWriter, req *http.Request) bool {
		if !strings.HasPrefix(req.URL.Path, prefix) {
			return false
		}
		other := req.Clone(req.Context())
		other.URL.Path = feedtest.CollectionPath
		answers.ServeHTTP(rw, other)
		return true
	})
}

// TestTakenOver has another server, which counts lower revisions, take over one resource. That one
// is loaded again, its watches lose their place, and the process goes on.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, follow.Config{})
	definitions := feedtest.NewAPIHandler(feedtest.APIOptions{WatchLists: true})
	for range 50 {
		definitions.PutElsewhere(t)
	}
	w.upstream.Backup(t)
	var last int64
	for range 30 {
		last = w.upstream.Put(t, "a", "one")
	}
	w.followDefinitions(definitions)
	w.loaded(follow.Request{Named: true})
	w.upstream.Restore(t)
	w.upstream.Put(t, "theirs", "one")
	w.server.CloseClientConnections()
	w.until("the other server's objects", func() bool {
		snapshot := w.resource.Snapshot()
		return snapshot.Get("ns/theirs") != nil && snapshot.Get("ns/a") == nil && snapshot.Revision < last
	})
	w.untilState(follow.Following)
	w.wantNoFailure()
}

// TestRestored has the server of all resources restored from a backup. That ends the process.
func TestRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, follow.Config{})
	w.upstream.Backup(t)
	for range 30 {
		w.upstream.Put(t, "a", "one")
	}
	w.followDefinitions(w.upstream)
	w.loaded(follow.Request{Named: true})
	w.upstream.Restore(t)
	w.server.CloseClientConnections()
	select {
	case <-w.backends.Failed:
	case <-time.After(patience):
		t.Fatalf("the process goes on over another history; the state is %s", w.state())
	}
}

// TestRefusedResource makes the upstream refuse the feed of one resource. It is given up as one
// that is silent, and asked for seldom.
func TestRefusedResource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, follow.Config{})
	w.upstream.Put(t, "a", "one")
	w.resources.SetFollowAgain(func(follow.Key) { w.follow(follow.Request{Named: true}) })
	w.loaded(follow.Request{Named: true})
	other := w.followOther()
	w.upstream.Intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusForbidden)
		return true
	})
	w.server.CloseClientConnections()
	w.untilState(follow.Doubtful)
	w.until("the other resource follows again", func() bool { return w.resources.State(other) == follow.Following })
	w.until("the upstream's refusal is known", func() bool {
		return slices.ContainsFunc(w.resources.All(), func(b *source.Backend) bool { return errors.Is(b.Feed.Healthy(), feed.ErrRefused) })
	})
	w.pass(2 * time.Minute)
	w.untilState(follow.Refused)
	w.upstream.Intercept(nil)
	w.pass(2 * time.Minute)
	if got := w.state(); got != follow.Refused {
		t.Errorf("two minutes behind the refusal the state is %s", got)
	}
	w.pass(4 * time.Minute)
	w.untilState(follow.Following)
}

// wantNoFailure fails if the source has ended.
func (w *world) wantNoFailure() {
	w.Helper()
	select {
	case err := <-w.backends.Failed:
		w.Errorf("the source has ended: %v", err)
	default:
	}
}
