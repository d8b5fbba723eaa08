package apifeed

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// An API server sends a bookmark when a watch has begun with all objects, once a minute, and two
// seconds before the watch's end. So a second watch of three seconds, which begins after the
// applied revision, has a bookmark after a second or two. What the second watch sends before its
// bookmark is all that has changed up to there.
//
// A Millrace sends a bookmark as soon as it has reached a revision that the watch names. There a
// second watch takes a round trip.

const (
	// shortWatchSeconds is the time of a second watch, and shortWatchLimit the time of
	// its request.
	shortWatchSeconds = "3"
	shortWatchLimit   = 6 * time.Second
	// quietAfter is how long requests for progress go on, while nothing is applied, until a second
	// watch begins. A busy resource has events before. A Millrace is asked without that wait.
	quietAfter = 80 * time.Millisecond
	// requestGap is the time without requests after which a new run of requests begins.
	requestGap = time.Second
	// shortWatchPause follows a second watch that has failed.
	shortWatchPause = 2 * time.Second
)

// progressRequests has the requests for progress that a feed has got. They lead to a second
// watch if they go on while nothing is applied.
type progressRequests struct {
	// wanted receives a value when a second watch is needed.
	wanted chan struct{}
	// newest is the server's newest revision as readers have last read it.
	newest atomic.Int64
	mu     struct {
		sync.Mutex
		// since is when the present run of requests began.
		since time.Time
		// applied is the revision that was applied at since.
		applied int64
		// last is the time of the last request.
		last time.Time
	}
}

// add records a request while applied is the applied revision. It wants a second watch if
// requests have gone on for after.
func (p *progressRequests) add(now time.Time, applied int64, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if applied != p.mu.applied || now.Sub(p.mu.last) > requestGap {
		p.mu.applied, p.mu.since = applied, now
	}
	if p.mu.last = now; now.Sub(p.mu.since) < after {
		return
	}
	select {
	case p.wanted <- struct{}{}:
	default: // a second watch is wanted already
	}
}

// RequestProgress implements cache.RevisionSource, whose callers repeat it. It does not
// wait for the progress.
func (f *Feed) RequestProgress(context.Context) error {
	after := quietAfter
	if f.ProgressWithin() > 0 {
		after = 0
	}
	f.requests.add(time.Now(), f.applied.Load(), after)
	return nil
}

// answerRequests runs second watches, one at a time, until the context ends.
func (f *Feed) answerRequests(ctx context.Context) {
	for {
		select {
		case <-f.requests.wanted:
		case <-ctx.Done():
			return
		}
		if !f.health.Following() {
			continue
		}
		err := f.shortWatch(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		f.cfg.Logger.Debug("A short watch for a bookmark failed", "url", f.cfg.URL, "err", err)
		select {
		case <-time.After(shortWatchPause):
		case <-ctx.Done():
		}
	}
}

// errNoBookmark says that a short watch ended without a bookmark.
var errNoBookmark = errors.New("the watch ended without a bookmark")

// shortWatch reads a second watch up to its bookmark, and applies none of its events: they
// come by the feed's own watch too.
func (f *Feed) shortWatch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shortWatchLimit)
	defer cancel()
	last := f.applied.Load()
	parameters := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {shortWatchSeconds}, "resourceVersion": {strconv.FormatInt(last, 10)},
	}
	if newest := f.requests.newest.Load(); f.ProgressWithin() > 0 && newest > last {
		parameters.Set("millraceBookmarkAtRevision", strconv.FormatInt(newest, 10))
	}
	resp, err := f.request(f.cfg.URL, parameters, f.codec.watchMediaType()).send(ctx)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	next := f.codec.frames(bufio.NewReader(resp.Body))
	for {
		event, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return errNoBookmark
		case err != nil:
			return err
		case event.kind == apiwatch.Error:
			return f.watchError(event.status)
		case event.kind == apiwatch.Bookmark:
			f.bookmarked.Store(true)
			f.advance(event.object.revision, last)
			return nil
		}
		last = event.object.revision
	}
}

// advance moves the applied revision forward to revision, up to which nothing has changed
// since the event of revision last. It does nothing if that event was not applied yet.
func (f *Feed) advance(revision, last int64) {
	f.applying.Lock()
	defer f.applying.Unlock()
	if applied := f.applied.Load(); applied >= last && applied < revision && f.health.Following() {
		f.applied.Store(revision)
		f.cfg.Sink.Progressed(revision)
	}
}
