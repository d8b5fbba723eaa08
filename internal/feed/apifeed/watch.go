package apifeed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/feed"
)

const (
	// minWatchTime is the least time of a watch, and maxWatchTime the longest. Then the next one
	// may go to another server at the same address. Times are random, so that the watches of all
	// resources do not end together.
	minWatchTime = 450 * time.Second
	maxWatchTime = 600 * time.Second
	// endSlack is how long before its time a watch may end.
	endSlack = 5 * time.Second
	// maxSilence is the time without an event or bookmark after which a watch is opened again. API
	// servers send a bookmark each minute.
	maxSilence = 3 * time.Minute
	// bookmarkInterval is how often a Millrace is asked for bookmarks. Others do not know
	// the parameter.
	bookmarkInterval = 100 * time.Millisecond
	readBuffer       = 64 << 10
)

// errNoWatchList says that the server does not begin watches with all objects.
var errNoWatchList = errors.New("the API server has no watch-list")

// frame is one event of a watch.
type frame struct {
	kind   apiwatch.EventType
	object object
	// status is set for an error.
	status *metav1.Status
}

// watchAnswer is the answer to a watch, and its connection.
type watchAnswer struct {
	*http.Response
	conn net.Conn
}

// watch follows one watch to its end. It returns nil if the server ended the watch, or
// if a server without bookmarks was silent for maxSilence. With initial the watch
// begins with all objects, else after the applied revision.
func (f *Feed) watch(ctx context.Context, initial *initialEvents) error {
	length := minWatchTime + rand.N(maxWatchTime-minWatchTime)
	r := f.request(f.cfg.URL, f.watchParameters(initial != nil, length), f.codec.watchMediaType())
	r.silence = maxSilence
	began := time.Now()
	resp, err := f.openWatch(ctx, r)
	if initial != nil && isInvalid(err) {
		return fmt.Errorf("%w: %w", errNoWatchList, err)
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", f.cfg.URL, err)
	}
	defer resp.Body.Close()
	if initial == nil {
		f.setFollowing()
	} else {
		initial.loader, f.witness = f.cfg.Sink.BeginLoad(), feed.Witness{}
	}
	f.setHeard()
	f.setDepth(resp.Header)
	f.setInterval(resp.Header)
	err = f.readFrames(ctx, resp.Response, initial)
	// A server that ends a watch early may be going, and another server come in its place.
	f.confirmed.set(f.confirmed.is() && err == nil && time.Since(began) > length-endSlack)
	if interruption := context.Cause(ctx); errors.Is(err, errSilent) || errors.Is(interruption, errFrozen) {
		f.abandonedConn = resp.conn
	}
	if errors.Is(err, errSilent) && !f.bookmarked.Load() && f.loaded {
		f.cfg.Logger.Debug("A watch without bookmarks is silent and opened again", "url", f.cfg.URL)
		return nil
	}
	return err
}

// depthHeader is the header in which a replica says its Depth.
const depthHeader = "X-Millrace-Depth"

// maxDepth bounds the depth that is taken from a server.
const maxDepth = 1000

// setDepth sets the depth to one more than the server's. An API server has no depthHeader.
func (f *Feed) setDepth(answer http.Header) {
	depth, _ := strconv.Atoi(answer.Get(depthHeader))
	f.depth.Store(int64(min(max(depth, 0), maxDepth) + 1))
}

// intervalHeader is the header in which a Millrace says how often it sends bookmarks.
const intervalHeader = "X-Millrace-Bookmark-Interval"

func (f *Feed) setInterval(answer http.Header) {
	interval, _ := time.ParseDuration(answer.Get(intervalHeader))
	f.interval.Store(int64(min(max(interval, 0), time.Minute)))
}

// ProgressWithin returns the time between bookmarks of the server. It returns 0 if the server
// does not say.
func (f *Feed) ProgressWithin() time.Duration { return time.Duration(f.interval.Load()) }

func (f *Feed) watchParameters(initial bool, length time.Duration) url.Values {
	parameters := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"},
		"timeoutSeconds":           {strconv.Itoa(int(length / time.Second))},
		"millraceBookmarkInterval": {bookmarkInterval.String()},
	}
	if initial {
		parameters.Set("sendInitialEvents", "true")
		parameters.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
	} else {
		parameters.Set("resourceVersion", strconv.FormatInt(f.applied.Load(), 10))
	}
	return parameters
}

// readFrames hands the sink what a watch sends.
func (f *Feed) readFrames(ctx context.Context, resp *http.Response, initial *initialEvents) error {
	next := f.codec.frames(bufio.NewReaderSize(resp.Body, readBuffer))
	for {
		event, err := next()
		if errors.Is(err, io.EOF) {
			if initial != nil {
				return fmt.Errorf("watch %s: ended before all objects were sent", f.cfg.URL)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("read watch of %s: %w", f.cfg.URL, err)
		}
		f.setHeard()
		if event.kind == apiwatch.Error {
			return f.watchError(event.status)
		}
		if initial == nil {
			f.apply(ctx, event)
			continue
		}
		ended, err := f.collect(ctx, initial, event)
		if err != nil {
			return err
		}
		if ended {
			initial.done()
			initial = nil
		}
	}
}

func (f *Feed) watchError(status *metav1.Status) error {
	if status == nil {
		return fmt.Errorf("watch %s: an error without a status", f.cfg.URL)
	}
	return fmt.Errorf("watch %s: %w", f.cfg.URL, statusError(int(status.Code), []byte(status.Message)))
}

// apply hands an event or a bookmark to the sink.
func (f *Feed) apply(ctx context.Context, event frame) {
	f.applying.Lock()
	defer f.applying.Unlock()
	o := &event.object
	switch event.kind {
	case apiwatch.Bookmark:
		f.bookmarked.Store(true)
		f.observeBookmark(o)
		if o.revision > f.applied.Load() {
			f.applied.Store(o.revision)
			f.cfg.Sink.Progressed(o.revision)
		}
		return
	case apiwatch.Deleted:
		deleted := f.deletion(o)
		f.cfg.Sink.Received(time.Now())
		f.cfg.Sink.Apply(ctx, []feed.Object{deleted})
		f.witness.Observe(&deleted)
	default:
		put := f.present(o)
		f.cfg.Sink.Received(time.Now())
		f.cfg.Sink.Apply(ctx, []feed.Object{put})
		f.witness.Observe(&put)
	}
	f.applied.Store(o.revision)
}
