package apifeed_test

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/apifeed"
	"github.com/millrace/millrace/internal/feed/feedtest"
)

// refuse makes the server answer all requests that are not spared with a status, and counts
// them.
func (b *bubble) refuse(status int, spares func(*http.Request) bool) *atomic.Int64 {
	count := &atomic.Int64{}
	b.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if spares(req) {
			return false
		}
		count.Add(1)
		w.WriteHeader(status)
		return true
	})
	return count
}

func none(*http.Request) bool { return false }

// TestRefused makes the server refuse the feed: at first, after a watch, and as a server
// without watch-lists would. The feed asks seldom, says so once, and at once if told.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed} {
		for _, loaded := range []bool{false, true} {
			inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
				b.Put(t, "a", "1")
				if loaded {
					b.follow(t, nil)
				}
				requests := b.refuse(status, none)
				began := time.Now()
				if loaded {
					b.cut()
				} else {
					b.follow(t, nil)
				}
				b.pass(20 * time.Minute)
				if got, since := b.feed.RefusalStatus(); got != status || since.Before(began) || time.Since(since) < 19*time.Minute {
					t.Errorf("refused with %d since %v, want %d", got, since, status)
				}
				if err := b.feed.Healthy(); !errors.Is(err, feed.ErrRefused) {
					t.Errorf("healthy: %v", err)
				}
				if _, err := b.feed.Revision(t.Context()); !errors.Is(err, feed.ErrRefused) {
					t.Errorf("Revision returned %v", err)
				}
				before := requests.Load()
				b.pass(time.Hour)
				if n := requests.Load() - before; n < 8 || n > 100 {
					t.Errorf("status %d: %d requests in an hour", status, n)
				}
				lines := append(b.log.lines("API server refuses"), b.log.lines("does not serve")...)
				if len(lines) != 1 || strings.Contains(lines[0], "INFO") != (status == http.StatusNotFound) {
					t.Errorf("status %d: the log has %q", status, lines)
				}
				b.Intercept(nil)
				last := b.Put(t, "a", "2")
				b.feed.Retry()
				b.pass(time.Second)
				b.wantApplied(t, last)
				if got, _ := b.feed.RefusalStatus(); got != 0 || b.feed.Healthy() != nil {
					t.Errorf("refused with %d, healthy %v", got, b.feed.Healthy())
				}
			})
		}
	}
}

// TestRefusedWatch makes the server refuse watches alone. Readers are not kept waiting.
func TestRefusedWatch(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
		b.Put(t, "a", "1")
		b.refuse(http.StatusForbidden, func(req *http.Request) bool { return req.FormValue("watch") == "" })
		b.follow(t, nil)
		b.pass(time.Minute)
		began := time.Now()
		if _, err := b.feed.Revision(t.Context()); !errors.Is(err, feed.ErrRefused) || time.Since(began) > 0 {
			t.Errorf("Revision returned %v behind %v", err, time.Since(began))
		}
	})
}

// TestDefinitionDeleted ends the watch of a resource that is not served any more: that is one
// line of the log, and no fault.
func TestDefinitionDeleted(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
		b.Put(t, "a", "1")
		b.follow(t, nil)
		b.pass(time.Minute)
		b.refuse(http.StatusNotFound, none)
		b.EndWatches()
		b.pass(time.Minute)
		if lines := b.log.lines("widgets"); len(lines) != 2 || !strings.Contains(lines[1], "INFO") || !strings.Contains(lines[1], "does not serve") {
			t.Errorf("the log has %q", lines)
		}
		b.wantRuns(t)
	})
}

// TestOutage logs one line of a server that is away, however long.
func TestOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
		b.Put(t, "a", "1")
		b.follow(t, nil)
		for range 2 {
			b.refuse(http.StatusServiceUnavailable, none)
			b.cut()
			b.pass(time.Hour)
			b.Intercept(nil)
			b.pass(time.Minute)
		}
		if lines := b.log.lines("broke"); len(lines) != 2 {
			t.Errorf("the log has %q", lines)
		}
	})
}

// TestReaderHurries reads while the feed waits to try again. The reader waits for it, and the
// feed less.
func TestReaderHurries(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
		b.Put(t, "a", "1")
		b.follow(t, nil)
		for i := range 20 {
			b.refuse(http.StatusServiceUnavailable, none)
			b.cut()
			b.pass(time.Minute + time.Duration(i)*time.Second)
			b.Intercept(nil)
			last, began := b.Put(t, "a", "2"), time.Now()
			if revision, err := b.feed.Revision(t.Context()); err != nil || revision != last || time.Since(began) > time.Second {
				t.Errorf("Revision() = %d, %v behind %v, want %d", revision, err, time.Since(began), last)
			}
			synctest.Wait()
			b.wantApplied(t, last)
		}
	})
}

// TestWatchTimes checks that the watches of 20 feeds end at different times.
func TestWatchTimes(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []int
	for range 20 {
		inBubble(t, feedtest.APIOptions{WatchLists: true}, func(t *testing.T, b *bubble) {
			b.Intercept(func(_ http.ResponseWriter, req *http.Request) bool {
				seconds, _ := strconv.Atoi(req.FormValue("timeoutSeconds"))
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, seconds)
				return false
			})
			b.follow(t, nil)
		})
	}
	slices.Sort(asked)
	if asked[0] < 450 || asked[19] > 600 || asked[19]-asked[0] < 60 {
		t.Errorf("watches end behind %v seconds", asked)
	}
}

// TestLoadsAreBounded has ten feeds load, of which two may at a time.
func TestLoadsAreBounded(t *testing.T) {
	t.Parallel()
	for _, watchLists := range []bool{false, true} {
		inBubble(t, feedtest.APIOptions{WatchLists: watchLists}, func(t *testing.T, b *bubble) {
			var running, most atomic.Int64
			b.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
				if req.FormValue("limit") == "" && req.FormValue("sendInitialEvents") == "" {
					return false
				}
				if !watchLists && req.FormValue("watch") != "" {
					return false // it is refused
				}
				most.Store(max(most.Load(), running.Add(1)))
				<-time.After(time.Second)
				running.Add(-1)
				return false
			})
			semaphore := make(chan struct{}, 2)
			var feeds []*apifeed.Feed
			for range 10 {
				b.follow(t, func(c *apifeed.Config) { c.LoadSemaphore = semaphore })
				feeds = append(feeds, b.feed)
			}
			b.pass(7 * time.Second)
			for i, f := range feeds {
				if err := f.Healthy(); err != nil {
					t.Errorf("feed %d: %v", i, err)
				}
			}
			if most.Load() != 2 || len(semaphore) != 0 {
				t.Errorf("%d loads at a time, and %d places are taken", most.Load(), len(semaphore))
			}
		})
	}
}

// TestUncompressed asks for no compression of anything.
func TestUncompressed(t *testing.T) {
	t.Parallel()
	inBubble(t, feedtest.APIOptions{WatchLists: true, Replica: true}, func(t *testing.T, b *bubble) {
		b.Intercept(func(_ http.ResponseWriter, req *http.Request) bool {
			if req.Header.Get("Accept-Encoding") != "identity" || req.Header.Get("X-Millrace-Compress-Watch") != "" {
				t.Errorf("%s asks for %v", req.URL, req.Header)
			}
			return false
		})
		last := b.Put(t, "a", "1")
		b.follow(t, func(c *apifeed.Config) { c.Uncompressed = true })
		b.pass(time.Second)
		b.cut()
		b.pass(time.Minute)
		if _, err := b.feed.Revision(t.Context()); err != nil {
			t.Error(err)
		}
		b.wantApplied(t, last)
	})
}
