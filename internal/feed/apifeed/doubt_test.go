package apifeed_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/apifeed"
	"github.com/millrace/millrace/internal/feed/feedtest"
)

// doubts are what another server may have done to its history.
var doubts = map[string]func(*testing.T, *feedtest.APIServer){
	"lower revision": func(*testing.T, *feedtest.APIServer) {},
	"other objects": func(t *testing.T, s *feedtest.APIServer) {
		s.Put(t, "a", "other")
		for range 20 {
			s.PutElsewhere(t)
		}
	},
	"object is gone": func(t *testing.T, s *feedtest.APIServer) {
		s.Delete(t, "a")
		for range 20 {
			s.PutElsewhere(t)
		}
	},
}

// exchange gives the resource to another server, at which there is one object.
func (b *bubble) exchange(t *testing.T, use func(*testing.T, *feedtest.APIServer)) {
	b.Restore(t)
	b.Put(t, "theirs", "x")
	use(t, b.APIServer)
	b.cut()
	synctest.Wait()
}

// TestDoubt lets another server take over the resource. If that is no proof of another history
// of all resources, the feed loads the resource again and follows it.
func TestDoubt(t *testing.T) {
	t.Parallel()
	for name, other := range doubts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
				b.Backup(t)
				for range 10 {
					b.Put(t, "a", "1")
				}
				var asked atomic.Int64
				b.follow(t, func(c *apifeed.Config) {
					c.WentBack = func(context.Context) (bool, error) {
						if asked.Add(1) == 1 {
							return false, errors.New("no answer")
						}
						return false, nil
					}
				})
				b.sink.AllowOtherHistory()
				b.pass(time.Minute)
				b.exchange(t, other)
				if _, err := b.feed.Revision(shortly(t)); err == nil || errors.Is(err, feed.ErrWentBack) {
					t.Errorf("Revision returned %v", err)
				}
				doubted := false
				for range 600 {
					b.pass(100 * time.Millisecond)
					doubted = doubted || errors.Is(b.feed.Healthy(), feed.ErrDoubt)
				}
				if !doubted {
					t.Error("the feed was not in doubt while nobody knew")
				}
				b.wantRuns(t)
				last := b.Put(t, "theirs", "y")
				b.pass(time.Second)
				if loads := b.sink.Loads(); len(loads) != 2 || b.sink.AppliedRevision() != last || b.feed.Healthy() != nil || asked.Load() != 2 {
					t.Errorf("loads at %v, applied %d of %d, healthy %v, asked %d times", loads, b.sink.AppliedRevision(), last, b.feed.Healthy(), asked.Load())
				}
				if got := b.sink.Value(b.Key("theirs")); !strings.Contains(got, `"y"`) {
					t.Errorf("the sink has %s", got)
				}
				if revision, err := b.feed.Revision(t.Context()); err != nil || revision != last {
					t.Errorf("Revision() = %d, %v, want %d", revision, err, last)
				}
			})
		})
	}
}

// TestDoubtProven ends where all resources have another history.
func TestDoubtProven(t *testing.T) {
	t.Parallel()
	for name, other := range doubts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
				b.Backup(t)
				for range 10 {
					b.Put(t, "a", "1")
				}
				b.follow(t, func(c *apifeed.Config) {
					c.WentBack = func(context.Context) (bool, error) { return true, nil }
				})
				b.pass(time.Minute)
				b.exchange(t, other)
				b.wantWentBack(t)
			})
		})
	}
}

// TestDoubtOfReader lets a reader find the lower revision, while the watch goes on at the
// server that had the resource before.
func TestDoubtOfReader(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
		for range 10 {
			b.Put(t, "a", "1")
		}
		b.follow(t, func(c *apifeed.Config) {
			c.WentBack = func(context.Context) (bool, error) { return false, nil }
		})
		b.sink.AllowOtherHistory()
		theirs := feedtest.NewAPIHandler(feedtest.APIOptions{WatchLists: true})
		theirs.Put(t, "theirs", "x")
		b.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
			theirs.ServeHTTP(w, req)
			return true
		})
		if _, err := b.feed.Revision(t.Context()); !errors.Is(err, feed.ErrDoubt) {
			t.Errorf("Revision returned %v", err)
		}
		b.pass(time.Minute)
		if loads := b.sink.Loads(); len(loads) != 2 || b.sink.Value(b.Key("theirs")) == "" || b.sink.Value(b.Key("a")) != "" {
			t.Errorf("loads at %v, and not the objects of the other server", loads)
		}
	})
}

// TestWentBackWith has another server answer for a resource, which raises a doubt. It proves
// another history if that server answers for the other resource as well, and goes on to
// contradict. But it may have given the resource back, or answer no more.
func TestWentBackWith(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		both, givenBack, broken bool
	}{
		"all resources": {both: true}, "one resource": {}, "one resource that is given back": {givenBack: true}, "no answer": {both: true, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
				ours, theirs := feedtest.NewAPIHandler(feedtest.APIOptions{WatchLists: true}), feedtest.NewAPIHandler(feedtest.APIOptions{WatchLists: true})
				for _, s := range []*feedtest.APIServer{b.APIServer, ours} {
					for range 10 {
						s.Put(t, "a", "1")
					}
				}
				const otherPath = "/apis/other/v1/gadgets"
				other := apifeed.New(apifeed.Config{Client: b.client, URL: "http://server" + otherPath, Prefix: feedtest.KeyPrefix})
				var asked, gone, taken atomic.Bool
				var wentBack bool
				var failure error
				b.follow(t, func(config *apifeed.Config) {
					config.WentBack = func(ctx context.Context) (bool, error) {
						taken.Store(!c.givenBack)
						gone.Store(c.broken)
						wentBack, failure = b.feed.WentBackWith(ctx, other)
						gone.Store(false)
						asked.Store(true)
						return false, nil
					}
				})
				b.sink.AllowOtherHistory()
				b.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
					ofOther := strings.HasPrefix(req.URL.Path, otherPath)
					req = req.Clone(req.Context())
					req.URL.Path = feedtest.CollectionPath
					switch {
					case gone.Load():
						w.WriteHeader(http.StatusServiceUnavailable)
					case taken.Load() && (!ofOther || c.both):
						theirs.ServeHTTP(w, req)
					default:
						ours.ServeHTTP(w, req)
					}
					return true
				})
				taken.Store(true)
				b.cut()
				b.pass(time.Minute)
				if want := c.both && !c.broken; !asked.Load() || wentBack != want || (failure != nil) != c.broken {
					t.Errorf("asked: %v, went back: %v, %v", asked.Load(), wentBack, failure)
				}
			})
		})
	}
}

// TestDeletedWitness restores a backup after a deletion, which was the last change.
func TestDeletedWitness(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
		b.Put(t, "a", "1")
		b.Backup(t)
		b.follow(t, nil)
		b.Delete(t, "a")
		b.pass(time.Minute)
		b.Restore(t)
		for range 20 {
			b.PutElsewhere(t)
		}
		b.cut()
		b.wantWentBack(t)
	})
}

// TestCutWatch kills the server late in a watch, and starts one that has another history.
func TestCutWatch(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
		b.Backup(t)
		b.Put(t, "a", "1")
		b.follow(t, nil)
		b.pass(7 * time.Minute)
		b.Restore(t)
		for range 20 {
			b.Put(t, "b", "2")
		}
		b.cut()
		b.wantWentBack(t)
	})
}

// TestStale makes a replica answer with states that it cannot prove to be new. They prove
// nothing, and no other history either.
func TestStale(t *testing.T) {
	t.Parallel()
	for name, isStale := range map[string]func(*http.Request) bool{
		"revision":   func(req *http.Request) bool { return req.FormValue("limit") == "1" },
		"witness":    func(req *http.Request) bool { return req.FormValue("fieldSelector") != "" },
		"page":       func(req *http.Request) bool { return req.FormValue("limit") == "500" },
		"watch-list": func(req *http.Request) bool { return req.FormValue("sendInitialEvents") != "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, feedtest.APIOptions{WatchLists: name == "watch-list"}, func(t *testing.T, b *bubble) {
				b.Put(t, "a", "1")
				old := feedtest.NewAPIHandler(feedtest.APIOptions{WatchLists: true})
				b.follow(t, nil)
				b.Put(t, "a", "2")
				b.pass(time.Second)
				b.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
					if !isStale(req) {
						return false
					}
					w.Header().Set("X-Millrace-Stale", "5s")
					old.ServeHTTP(w, req)
					return true
				})
				if name == "page" || name == "watch-list" {
					b.PutElsewhere(t)
					b.Forget(t)
				}
				b.cut()
				b.pass(10 * time.Millisecond)
				if _, err := b.feed.Revision(shortly(t)); name == "revision" && (err == nil || !strings.Contains(err.Error(), "stale")) || errors.Is(err, feed.ErrWentBack) {
					t.Errorf("Revision returned %v", err)
				}
				b.pass(time.Minute)
				b.wantRuns(t)
				b.Intercept(nil)
				last := b.Put(t, "a", "3")
				b.pass(time.Minute)
				b.wantApplied(t, last)
			})
		})
	}
}

// shortly returns a context that ends soon.
func shortly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// TestNamesOfAllCharacters asks for the newest object though its name has what means something
// to field selectors.
func TestNamesOfAllCharacters(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
		for _, name := range []string{`x=y`, `x,y`, `x\y`, `x!=y,z`} {
			b.Put(t, name, "1")
			if b.sink == nil {
				b.follow(t, nil)
			}
			b.pass(time.Second)
			b.cut()
			b.pass(time.Minute)
			b.wantApplied(t, b.Put(t, name, "2")-1)
			b.pass(time.Second)
			b.wantApplied(t, b.sink.AppliedRevision())
			if err := b.feed.Healthy(); err != nil {
				t.Errorf("behind %s: healthy %v", name, err)
			}
		}
		if loads := b.sink.Loads(); len(loads) != 1 {
			t.Errorf("loads at %v", loads)
		}
	})
}

// TestRefusedWitness has a server that does not take the question about the newest object.
func TestRefusedWitness(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity} {
		inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
			b.Put(t, "a", "1")
			b.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
				if refuses := req.FormValue("fieldSelector") != ""; refuses {
					w.WriteHeader(status)
					return true
				}
				return false
			})
			b.follow(t, nil)
			b.pass(time.Second)
			b.cut()
			last := b.Put(t, "a", "2")
			b.pass(time.Minute)
			b.wantApplied(t, last)
			if loads := b.sink.Loads(); !slices.Equal(loads, []int64{last - 1, last}) || b.feed.Healthy() != nil {
				t.Errorf("loads at %v, healthy %v", loads, b.feed.Healthy())
			}
		})
	}
}
