package read_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/conn/pull"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/tier/watch"
)

// bookmarkPath asks for a watch with bookmarks.
const bookmarkPath = listPath + "?watch=1&resourceVersion=100&allowWatchBookmarks=true"

// handConn is a connection whose watch is asked for bytes by the test.
type handConn struct {
	*httptest.ResponseRecorder
	source chan pull.Source
	// wakes counts the calls of Wake.
	wakes atomic.Int64
}

// Pull implements pull.Puller.
func (c *handConn) Pull(ctx context.Context, source pull.Source) error {
	c.source <- source
	<-ctx.Done()
	return ctx.Err()
}

func (c *handConn) Wake()                              { c.wakes.Add(1) }
func (c *handConn) Waits() (window, write time.Time)   { return time.Time{}, time.Time{} }
func (c *handConn) WithLock(use func(returned uint64)) { use(0) }

// handWatch is a watch that is asked for bytes by the test.
type handWatch struct {
	*handConn
	pull.Source
}

// newHandTier makes a tier whose watches are asked by hand.
func newHandTier(t *testing.T, changes ...configChange) *watchServer {
	t.Helper()
	env := &watchServer{}
	env.testTier = newTestTier(t, append(changes, func(c *read.RouteConfig) {
		env.hub = watch.NewHub(c.Objects.Resource())
		c.Hub, c.Watches, c.Shared.MinTimeout = env.hub, true, time.Hour
	})...)
	return env
}

// open opens a watch that ends with the test. address names its connection.
func (env *watchServer) open(t *testing.T, target, address string) *handWatch {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	req.RemoteAddr = address
	factory := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := factory.NewRequestInfo(req)
	if err != nil {
		t.Fatal(err)
	}
	c := &handConn{ResponseRecorder: httptest.NewRecorder(), source: make(chan pull.Source)}
	go env.handler.ServeHTTP(c, req.WithContext(request.WithRequestInfo(req.Context(), info)))
	return &handWatch{c, <-c.source}
}

// next asks the watch until it has nothing more, and returns its frames as stream.next
// does, separated by commas.
func (w *handWatch) next(t *testing.T) string {
	t.Helper()
	var frames []string
	for more := true; more; {
		var chunks [][]byte
		var err error
		if chunks, more, err = w.Next(nil, 16<<10); err != nil {
			t.Fatalf("%v behind %q", err, frames)
		}
		for _, chunk := range chunks {
			var event struct {
				Type   string
				Object struct{ Metadata metav1.ObjectMeta }
			}
			if err := json.Unmarshal(chunk, &event); err != nil {
				t.Fatal(err)
			}
			frames = append(frames, strings.TrimSpace(event.Type+" "+event.Object.Metadata.Name)+" "+event.Object.Metadata.ResourceVersion)
		}
	}
	return strings.Join(frames, ", ")
}

func (w *handWatch) want(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	if got := w.next(t); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// TestBookmarksAtAnInterval asks for bookmarks of a quiet resource, and of one that
// changes.
func TestBookmarksAtAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newHandTier(t)
		env.load(t, "one/a")
		w := env.open(t, bookmarkPath+"&millraceBookmarkInterval=10ms", "a")
		if got := w.Header().Get("X-Millrace-Bookmark-Interval"); got != "100ms" {
			t.Errorf("the interval is %q, want the shortest", got)
		}
		w.want(t, "")
		for i := range 20 {
			<-time.After(100 * time.Millisecond)
			w.want(t, "BOOKMARK 100")
			w.want(t, "")
			if got := w.wakes.Load(); got != int64(i+1) {
				t.Fatalf("%d wakes for %d bookmarks", got, i+1)
			}
		}
		env.cache.Progressed(150)
		w.want(t, "")
		<-time.After(100 * time.Millisecond)
		w.want(t, "BOOKMARK 150")
		env.put(t, "one/a", "x", 160)
		<-time.After(100 * time.Millisecond)
		w.want(t, "MODIFIED a 160, BOOKMARK 160")
		wantCount(t, env.testTier, "interval", 22)
	})
}

// TestBookmarksOfASlowClient lets bookmarks become due while the client reads nothing. One
// of them waits, and it has the newest revision.
func TestBookmarksOfASlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newHandTier(t)
		env.load(t, "one/a")
		w := env.open(t, bookmarkPath+"&millraceBookmarkInterval=100ms&millraceBookmarkAtRevision=120", "a")
		for i := range 300 {
			<-time.After(100 * time.Millisecond)
			env.cache.Progressed(int64(100 + i))
		}
		synctest.Wait()
		if got := w.wakes.Load(); got > 2 {
			t.Errorf("%d wakes for a client that reads nothing, want one for the interval and one for the revision", got)
		}
		w.want(t, "BOOKMARK 399")
		w.want(t, "")
	})
}

// TestBookmarkAtARevision asks for bookmarks of three revisions. One was reached, etcd has
// reached one by a write of another resource, and one was not reached.
func TestBookmarkAtARevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newHandTier(t)
		env.load(t, "one/a")
		env.etcd.onRequest = func() { env.cache.Progressed(env.etcd.at) }
		at := func(revision int64) *handWatch {
			return env.open(t, fmt.Sprintf("%s&millraceBookmarkAtRevision=%d", bookmarkPath, revision), "a")
		}
		w := at(90)
		if got := w.Header().Get("X-Millrace-Bookmark-At-Revision"); got != "90" {
			t.Errorf("the revision is %q", got)
		}
		w.want(t, "BOOKMARK 100")
		env.put(t, "one/a", "x", 101)
		w.want(t, "MODIFIED a 101")

		began := time.Now()
		env.etcd.at = 110
		all := []*handWatch{at(105), at(110)}
		for _, w := range all {
			synctest.Wait()
			if w.wakes.Load() == 0 {
				t.Error("the watch is not woken although etcd has the revision")
			}
			w.want(t, "MODIFIED a 101, BOOKMARK 110")
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("that took %v", waited)
		}

		w = at(120)
		w.want(t, "MODIFIED a 101")
		env.put(t, "one/a", "x", 119)
		w.want(t, "MODIFIED a 119")
		env.put(t, "one/a", "x", 120)
		w.want(t, "MODIFIED a 120, BOOKMARK 120")
		<-time.After(30 * time.Second)
		w.want(t, "")

		w = at(130)
		w.want(t, "MODIFIED a 101, MODIFIED a 119, MODIFIED a 120")
		env.etcd.at = 140
		<-time.After(100 * time.Millisecond) // the feed is asked for its progress that often
		w.want(t, "BOOKMARK 140")
		wantCount(t, env.testTier, "revision", 5)
	})
}

// TestRequestedBookmarksFollowEvents begins a watch far before the newest revision. A
// bookmark must not come before the events up to its revision.
func TestRequestedBookmarksFollowEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newHandTier(t)
		env.load(t, "one/a")
		const last = 500
		for revision := int64(101); revision <= last; revision++ {
			env.put(t, "one/a", "x", revision)
		}
		w := env.open(t, bookmarkPath+"&millraceBookmarkInterval=100ms&millraceBookmarkAtRevision=110", "a")
		var events int
		for bookmarks := 0; bookmarks < 3; <-time.After(100 * time.Millisecond) {
			synctest.Wait()
			for _, frame := range strings.Split(w.next(t), ", ") {
				var revision int
				if _, err := fmt.Sscanf(frame, "BOOKMARK %d", &revision); err != nil {
					events++
				} else if bookmarks++; revision > 100+events {
					t.Fatalf("a bookmark of revision %d behind %d events", revision, events)
				}
			}
		}
		if events != last-100 {
			t.Errorf("%d events", events)
		}
	})
}

// TestBookmarkOfAWatchAheadOfTheCache has watches from a revision that the cache has not
// reached. They are sent no bookmark before.
func TestBookmarkOfAWatchAheadOfTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newHandTier(t)
		env.load(t, "one/a")
		w := env.open(t, listPath+"?watch=1&resourceVersion=200&allowWatchBookmarks=true&millraceBookmarkInterval=1s&millraceBookmarkAtRevision=100", "a")
		<-time.After(3 * time.Second)
		w.want(t, "")
		env.cache.Progressed(200)
		w.want(t, "BOOKMARK 200")
		<-time.After(time.Second)
		w.want(t, "BOOKMARK 200")
	})
}

// TestIntervalsAreApart has watches with several intervals on several connections. Each
// gets its own number of bookmarks, and watches of one connection with the same interval
// become due together.
func TestIntervalsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newHandTier(t)
		env.load(t, "one/a")
		intervals := []time.Duration{100 * time.Millisecond, 250 * time.Millisecond, time.Second}
		type intervalWatch struct {
			*handWatch
			interval  time.Duration
			bookmarks int
		}
		var all []*intervalWatch
		for connection := range 400 {
			for _, interval := range intervals {
				for range 3 {
					w := env.open(t, bookmarkPath+"&millraceBookmarkInterval="+interval.String(), fmt.Sprint("client-", connection))
					all = append(all, &intervalWatch{w, interval, 0})
				}
			}
		}
		// That is more than a group of the timer takes.
		const span, step = 2 * time.Second, 12500 * time.Microsecond
		for range span / step {
			<-time.After(step)
			synctest.Wait()
			for i, w := range all {
				if w.next(t) != "" {
					w.bookmarks++
				}
				if i%3 > 0 && w.bookmarks != all[i-1].bookmarks {
					t.Fatalf("watches of one connection have %d and %d bookmarks", all[i-1].bookmarks, w.bookmarks)
				}
			}
		}
		for _, w := range all {
			if want := int(span / w.interval); w.bookmarks != want {
				t.Errorf("%d bookmarks at an interval of %v, want %d", w.bookmarks, w.interval, want)
			}
		}
	})
}

// TestOrdinaryWatchHasNoMoreBookmarks runs a watch that does not ask beside one that does.
func TestOrdinaryWatchHasNoMoreBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newHandTier(t)
		env.load(t, "one/a")
		ordinary, asking := env.open(t, bookmarkPath, "a"), env.open(t, bookmarkPath+"&millraceBookmarkInterval=1s", "a")
		<-time.After(30 * time.Second)
		asking.want(t, "BOOKMARK 100")
		ordinary.want(t, "")
		if ordinary.wakes.Load() > 0 {
			t.Error("an ordinary watch was woken")
		}
		for name := range ordinary.Header() {
			if strings.HasPrefix(name, "X-Millrace") {
				t.Errorf("an ordinary watch is answered with the header %s", name)
			}
		}
		wantCount(t, env.testTier, "interval", 1)
	})
}

// wantCount checks the number of bookmarks that were sent for a reason.
func wantCount(t *testing.T, env *testTier, reason string, want float64) {
	t.Helper()
	families, err := env.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "millrace_watch_bookmarks_total" {
			continue
		}
		for _, m := range family.Metric {
			if m.Label[0].GetValue() == reason && m.Counter.GetValue() != want {
				t.Errorf("%v bookmarks are counted for %s, want %v", m.Counter.GetValue(), reason, want)
			}
		}
		return
	}
	t.Error("no bookmarks are counted")
}
