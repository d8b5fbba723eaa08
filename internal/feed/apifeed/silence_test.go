package apifeed_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/feed/feedtest"
)

// TestNoAnswer leaves a request of each kind without an answer, as a load balancer does that
// holds the connection. The feed asks again.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		watchLists bool
		// hangs says which requests hang, of which the first one does.
		hangs func(*http.Request) bool
	}{
		"watch-list": {true, func(req *http.Request) bool { return req.FormValue("sendInitialEvents") != "" }},
		"watch": {false, func(req *http.Request) bool {
			return req.FormValue("watch") != "" && req.FormValue("sendInitialEvents") == ""
		}},
		"page":    {false, func(req *http.Request) bool { return req.FormValue("limit") == "500" }},
		"witness": {true, func(req *http.Request) bool { return req.FormValue("fieldSelector") != "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, feedtest.APIOptions{WatchLists: test.watchLists}, func(t *testing.T, b *bubble) {
				var hung atomic.Bool
				b.Intercept(func(_ http.ResponseWriter, req *http.Request) bool {
					hang := test.hangs(req) && !hung.Swap(true)
					if hang {
						<-req.Context().Done()
					}
					return hang
				})
				b.Put(t, "a", "1")
				b.follow(t, nil)
				b.pass(2 * time.Minute)
				if name == "witness" {
					b.cut()
				}
				last := b.Put(t, "a", "2")
				b.pass(time.Minute)
				b.wantApplied(t, last)
				if err := b.feed.Healthy(); err != nil || !hung.Load() {
					t.Errorf("healthy: %v; a request hung: %v", err, hung.Load())
				}
			})
		})
	}
}

// TestSilentPage stops a page in its middle.
func TestSilentPage(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{}, func(t *testing.T, b *bubble) {
		var hung atomic.Bool
		b.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
			if req.FormValue("limit") != "500" || hung.Swap(true) {
				return false
			}
			fmt.Fprint(w, `{"kind":`)
			w.(http.Flusher).Flush()
			<-req.Context().Done()
			return true
		})
		last := b.Put(t, "a", "1")
		b.follow(t, nil)
		b.pass(time.Minute)
		b.wantApplied(t, last)
	})
}

// freeze makes the watches of the first connection stand still at the revision at which they
// begin: their bookmarks repeat it. A load that begins there is sound.
func (b *bubble) freeze() (frozen func(http.ResponseWriter, *http.Request) bool) {
	frozen = func(w http.ResponseWriter, req *http.Request) bool {
		if req.FormValue("watch") == "" || connection(req) != 1 {
			return false
		}
		objects, revision := b.Objects(0)
		if req.FormValue("sendInitialEvents") != "" {
			for _, o := range objects {
				fmt.Fprint(w, event("ADDED", string(o.Value)))
			}
			fmt.Fprint(w, bookmark(int(revision), true))
		}
		ticker := time.NewTicker(time.Minute)
		defer ticker.Stop()
		for {
			w.(http.Flusher).Flush()
			select {
			case <-ticker.C:
				fmt.Fprint(w, bookmark(int(revision), false))
			case <-req.Context().Done():
				return true
			}
		}
	}
	b.Intercept(frozen)
	return frozen
}

// TestFrozen makes one of two servers with one address stand still. The feed leaves its
// connection within some minutes, and says meanwhile that it does not follow.
func TestFrozen(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
		b.freeze()
		b.Put(t, "a", "1")
		b.follow(t, nil)
		b.pass(time.Minute + time.Second) // a bookmark was sent
		last := b.Put(t, "a", "2")
		said := ""
		for began := time.Now(); b.sink.AppliedRevision() < last && time.Since(began) < 3*time.Minute; {
			b.pass(100 * time.Millisecond)
			if err := b.feed.Healthy(); err != nil {
				said = err.Error()
			}
		}
		b.wantApplied(t, last)
		if !strings.Contains(said, "stands still") {
			t.Errorf("the feed has said %q", said)
		}
		if loads := b.sink.Loads(); len(loads) != 1 || b.feed.Healthy() != nil {
			t.Errorf("loads at %v, healthy %v", loads, b.feed.Healthy())
		}
	})
}

// TestFrozenEtcd has the server that stands still not say how far it is.
func TestFrozenEtcd(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
		frozen := b.freeze()
		b.Put(t, "a", "1")
		b.follow(t, nil)
		b.pass(time.Minute + time.Second)
		last := b.Put(t, "a", "2")
		b.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
			if req.FormValue("watch") == "" && connection(req) == 1 {
				w.WriteHeader(http.StatusInternalServerError)
				return true
			}
			return frozen(w, req)
		})
		b.pass(3 * time.Minute)
		b.wantApplied(t, last)
	})
}

// TestQuiet has a resource that does not change while others do. Its watch stays.
func TestQuiet(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
		var watches, questions atomic.Int64
		b.Intercept(func(_ http.ResponseWriter, req *http.Request) bool {
			if req.FormValue("watch") != "" {
				watches.Add(1)
			} else {
				questions.Add(1)
			}
			return false
		})
		b.Put(t, "a", "1")
		b.follow(t, nil)
		const minutes = 7
		for range 60 * minutes {
			b.PutElsewhere(t)
			b.pass(time.Second)
		}
		if watches.Load() != 1 || questions.Load() > 2*minutes || len(b.log.lines("WARN")) > 0 {
			t.Errorf("%d watches and %d questions in %d minutes: %s", watches.Load(), questions.Load(), minutes, b.log.lines("WARN"))
		}
	})
}

// TestNoBookmarks has a server that sends no bookmarks of a resource, as kube-apiserver does
// for what it does not cache. A quiet watch is no broken one.
func TestNoBookmarks(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
		b.Put(t, "a", "1")
		b.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
			req.URL.RawQuery = strings.ReplaceAll(req.URL.RawQuery, "allowWatchBookmarks=true", "")
			return false
		})
		b.follow(t, nil)
		for range 20 {
			b.PutElsewhere(t)
			b.pass(time.Minute)
			if err := b.feed.Healthy(); err != nil {
				t.Fatal(err)
			}
		}
		last := b.Put(t, "a", "2")
		b.pass(time.Second)
		b.wantApplied(t, last)
		if lines := b.log.lines("WARN"); len(lines) > 0 || len(b.sink.Loads()) != 1 {
			t.Errorf("the log has %q, loads at %v", lines, b.sink.Loads())
		}
	})
}
