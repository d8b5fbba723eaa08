package storage

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/resource"
	mrwatch "github.com/millrace/millrace/internal/watch"
)

// Clock is what bookmarks are timed by.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

const (
	// resultBuffer decouples the reader of the log from the request's writer.
	resultBuffer = 16
	// readBatch is how many events are taken from the log at a time.
	readBatch = 64
)

// watcher implements watch.Interface: a goroutine that follows the log with a
// cursor of its own, so it delays nobody.
type watcher struct {
	store  *Store
	opts   storage.ListOptions
	start  cache.StartPoint
	cursor cache.Cursor

	result   chan watch.Event
	done     chan struct{}
	stopOnce sync.Once
}

func newWatcher(s *Store, from cache.StartPoint, opts storage.ListOptions) (*watcher, error) {
	cursor, oldest, err := s.cfg.Resource.Log().Since(from.After)
	if err != nil {
		return nil, expired(from.After, oldest)
	}
	return &watcher{
		store: s, opts: opts, start: from, cursor: cursor,
		result: make(chan watch.Event, resultBuffer),
		done:   make(chan struct{}),
	}, nil
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.stopOnce.Do(func() { close(w.done) }) }

// run sends until the watch is stopped, its context ends or its place is lost.
func (w *watcher) run(ctx context.Context) {
	defer close(w.result)
	// Fairness holds the request's seats until then: starting is what costs.
	signal := sync.OnceFunc(func() { flowcontrol.WatchInitialized(ctx) })
	defer signal()
	if err := w.sendInitial(ctx); err != nil {
		w.sendError(ctx, err)
		return
	}
	signal()
	if err := w.sendChanges(ctx); err != nil {
		w.sendError(ctx, err)
	}
}

// errStopped ends a watch without a word.
var errStopped = fmt.Errorf("watch stopped")

func (w *watcher) sendError(ctx context.Context, err error) {
	if err == errStopped {
		return
	}
	_ = w.send(ctx, errorEvent(err))
}

func (w *watcher) send(ctx context.Context, e watch.Event) error {
	select {
	case w.result <- e:
		return nil
	default:
	}
	select {
	case w.result <- e:
		return nil
	case <-w.done:
	case <-ctx.Done():
	case <-w.store.stop:
	}
	return errStopped
}

// sendInitial sends what existed, and the bookmark that says so if the client
// asked for initial events by name and understands bookmarks.
func (w *watcher) sendInitial(ctx context.Context) error {
	if w.start.Initial == nil {
		return nil
	}
	query := cache.Query{Prefix: w.start.Prefix, Single: w.start.Single}
	query.Labels, query.Fields, _ = w.store.selectors(&w.opts.Predicate)
	spans, _ := w.start.Initial.Candidates(&query)
	for e, err := range w.store.entries(ctx, spans, &w.opts.Predicate, 0) {
		if err == nil {
			err = w.sendAdded(ctx, e)
		}
		if err != nil {
			return err
		}
	}
	w.start.Initial = nil
	if w.opts.SendInitialEvents == nil || !w.opts.Predicate.AllowWatchBookmarks {
		return nil
	}
	return w.bookmark(ctx, w.start.After, true)
}

func (w *watcher) sendAdded(ctx context.Context, e *resource.Entry) error {
	if e.Err != nil {
		return fmt.Errorf("read %s: %w", e.Key, e.Err)
	}
	obj, err := w.store.ifSelected(&w.opts.Predicate, e, func() (runtime.Object, error) { return w.store.decode(e, e.Revision) })
	if err != nil || obj == nil {
		return err
	}
	return w.send(ctx, watch.Event{Type: watch.Added, Object: obj})
}

// sendChanges sends the log's events and bookmarks.
func (w *watcher) sendChanges(ctx context.Context) error {
	log, progress := w.store.cfg.Resource.Log(), w.store.cfg.Cache.Progress()
	timer, due := w.nextBookmark(ctx), false
	buf := make([]cache.Event, readBatch)
	at, reached := w.cursor, int64(0)
	for {
		// What the feed had finished before the log was read has been sent when the
		// read finds nothing more, and what was read, of which the feed may not know yet.
		reached = max(reached, progress.Revision())
		n, next, grown, err := log.Read(at, buf)
		if err != nil {
			return expired(w.start.After, reached)
		}
		if err := w.convert(ctx, buf[:n]); err != nil {
			return err
		}
		for i := range buf[:n] {
			if err := w.sendEvent(ctx, &buf[i]); err != nil {
				return err
			}
		}
		if at = next; n > 0 {
			reached = max(reached, buf[n-1].Revision)
			clear(buf[:n])
			continue
		}
		if due {
			if reached >= w.start.After {
				if err := w.bookmark(ctx, reached, false); err != nil {
					return err
				}
			}
			timer, due = w.nextBookmark(ctx), false
		}
		select {
		case <-grown:
		case <-timer:
			due = true
		case <-w.done:
			return errStopped
		case <-ctx.Done():
			return errStopped
		case <-w.store.stop:
			return errStopped
		}
	}
}

// sendEvent sends what a change means to this watch: an object that comes to be
// selected is ADDED, one that ceases to be is DELETED with its old content.
func (w *watcher) sendEvent(ctx context.Context, e *cache.Event) error {
	if e.Revision <= w.start.After || !w.start.Holds(e.Key()) {
		return nil
	}
	var current, previous runtime.Object
	var err error
	if e.Entry != nil {
		if current, err = w.selectedObject(e.Entry, e.Revision); err != nil {
			return err
		}
	}
	if e.Entry == nil && e.Previous.Err != nil {
		return corruptDeletion(e.Previous)
	}
	if e.Previous != nil {
		if previous, err = w.previousObject(e, current != nil); err != nil {
			return err
		}
	}
	switch {
	case current != nil && previous != nil:
		return w.send(ctx, watch.Event{Type: watch.Modified, Object: current})
	case current != nil:
		return w.send(ctx, watch.Event{Type: watch.Added, Object: current})
	case previous != nil:
		return w.send(ctx, watch.Event{Type: watch.Deleted, Object: previous})
	}
	return nil
}

// corruptDeletion says that an object is gone which could not be read, as Kubernetes says
// it: the client has to list again.
func corruptDeletion(e *resource.Entry) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Reason:  metav1.StatusReasonStoreReadError,
		Message: fmt.Sprintf("saw a DELETED event, but object data is corrupt - %v", e.Err),
	}}
}

// selectedObject is what an event shows of an entry if that is selected, else nil. All
// watchers of the store share it.
func (w *watcher) selectedObject(e *resource.Entry, revision int64) (runtime.Object, error) {
	if e.Err != nil {
		return nil, e.Err
	}
	return w.store.ifSelected(&w.opts.Predicate, e, func() (runtime.Object, error) {
		return w.store.shared.get(entryVersion{e, revision}, func() (runtime.Object, error) { return w.store.decode(e, revision) })
	})
}

// selectedMarker stands for a previous object of which only that it was selected matters.
var selectedMarker runtime.Object = &runtime.Unknown{}

// previousObject decodes the object before the change only if it will be sent.
func (w *watcher) previousObject(e *cache.Event, stays bool) (runtime.Object, error) {
	if stays && w.opts.Predicate.Empty() {
		return selectedMarker, nil
	}
	if l, f, whole := w.store.selectors(&w.opts.Predicate); stays && whole && e.Previous.Err == nil {
		if e.Previous.Matches(l, f) {
			return selectedMarker, nil
		}
		return nil, nil
	}
	return w.selectedObject(e.Previous, e.Revision)
}

// bookmark tells the client that it has seen everything up to a revision.
func (w *watcher) bookmark(ctx context.Context, revision int64, initialEventsEnd bool) error {
	obj, err := w.store.Bookmark(revision, initialEventsEnd)
	if err != nil {
		return err
	}
	return w.send(ctx, watch.Event{Type: watch.Bookmark, Object: obj})
}

// nextBookmark fires when the next one is due; never for clients that do not
// understand bookmarks.
func (w *watcher) nextBookmark(ctx context.Context) <-chan time.Time {
	if !w.opts.Predicate.AllowWatchBookmarks {
		return nil
	}
	deadline, _ := ctx.Deadline()
	pause, ok := mrwatch.NextBookmark(w.store.cfg.Clock.Now(), deadline)
	if !ok {
		return nil
	}
	return w.store.cfg.Clock.After(pause)
}
