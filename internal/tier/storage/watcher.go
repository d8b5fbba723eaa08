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
	cachermetrics "k8s.io/apiserver/pkg/storage/cacher/metrics"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/tier/cache"
	mrwatch "github.com/millrace/millrace/internal/tier/watch"
	"github.com/millrace/millrace/internal/wire/entry"
)

// Clock times bookmarks.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

const (
	// resultBuffer is how many events may wait for the request's goroutine, which writes them.
	// The watcher's goroutine meanwhile reads the log.
	resultBuffer = 16
	// readBatch is how many events are read from the log in one call.
	readBatch = 64
)

// watcher implements watch.Interface for Kubernetes' handlers. A goroutine follows the
// resource's log from a position of its own and decodes the events, so a slow watcher
// delays no other watcher. When the log overtakes the position, the watch ends with 410
// Expired.
//
//	start point -> initial events -> events of the log, bookmarks -> end or error
type watcher struct {
	store *Store
	opts  storage.ListOptions
	start cache.StartPoint
	// selection is the predicate of opts.
	selection selection
	// position is where the log is read from first.
	position cache.Position
	// omits says that objects that are not usable are left out. It is set before any event.
	omits bool

	result chan watch.Event
	// done is closed by Stop.
	done     chan struct{}
	stopOnce sync.Once
}

// newWatcher makes a watcher. The caller must call run.
func newWatcher(s *Store, from cache.StartPoint, sel selection, opts storage.ListOptions) (*watcher, error) {
	position, oldest, err := s.cfg.Resource.Log().Since(from.After)
	if err != nil {
		return nil, expired(from.After, oldest)
	}
	return &watcher{
		store: s, opts: opts, start: from, selection: sel, position: position,
		result: make(chan watch.Event, resultBuffer),
		done:   make(chan struct{}),
	}, nil
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.stopOnce.Do(func() { close(w.done) }) }

// run sends events until the watch or the store is stopped, or the context ends. It also ends
// after an error, which it sends.
func (w *watcher) run(ctx context.Context) {
	defer close(w.result)
	w.omits = w.store.omits(ctx)
	if w.selection.shard != nil {
		cachermetrics.RecordShardedWatchStarted(w.store.cfg.Resource.GroupResource())
		defer cachermetrics.RecordShardedWatchStopped(w.store.cfg.Resource.GroupResource())
	}
	// Priority and fairness keeps the request's seats until the signal: the initial
	// events are the costly part.
	signal := sync.OnceFunc(func() { flowcontrol.WatchInitialized(ctx) })
	defer signal()
	// What selects and converts objects is foreign code. If it panics, the watch ends with an
	// error, and the client lists again.
	err := w.store.cfg.Cache.Panics().Guard(panics.Watch, func() error {
		if err := w.sendInitial(ctx); err != nil {
			return err
		}
		signal()
		return w.sendChanges(ctx)
	})
	if err != nil {
		w.sendError(ctx, err)
	}
}

// errStopped ends a watch without an error event.
var errStopped = fmt.Errorf("watch stopped")

// sendError sends the error that ends the watch. A watch whose time is over ends without one,
// whatever it was waiting for, such as a conversion webhook.
func (w *watcher) sendError(ctx context.Context, err error) {
	if err == errStopped || ctx.Err() != nil {
		return
	}
	_ = w.send(ctx, errorEvent(err))
}

// send blocks until the event is in the result channel, or returns errStopped.
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

// sendInitial sends the objects at the start point, if the watch wants them. A bookmark
// ends them if the client set sendInitialEvents and understands bookmarks.
func (w *watcher) sendInitial(ctx context.Context) error {
	if w.start.Initial == nil {
		return nil
	}
	query := cache.Query{Prefix: w.start.Prefix, Single: w.start.Single}
	w.selection.restrict(&query)
	runs, _ := w.start.Initial.Candidates(&query)
	for e, err := range w.store.entries(ctx, runs, &w.selection, 0) {
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

// sendAdded sends an object as ADDED if the watch selects it.
func (w *watcher) sendAdded(ctx context.Context, e *entry.Entry) error {
	if e.Err != nil && w.omits {
		return nil
	}
	if e.Err != nil {
		return fmt.Errorf("read %s: %w", e.Key, e.Err)
	}
	obj, err := w.store.ifSelected(&w.selection, e, func() (runtime.Object, error) { return w.store.decodeAt(e, e.Revision) })
	if w.omits && !w.store.shows(e, obj, err) {
		return nil
	}
	if err != nil || obj == nil {
		return err
	}
	return w.send(ctx, watch.Event{Type: watch.Added, Object: obj})
}

// sendChanges sends the events of the log, and bookmarks when they are due.
func (w *watcher) sendChanges(ctx context.Context) error {
	log, progress := w.store.cfg.Resource.Log(), w.store.cfg.Cache.Progress()
	timer, bookmarkDue := w.nextBookmark(ctx), false
	buf := make([]cache.Event, readBatch)
	// sent is a revision up to which all events have been sent once a read of the log
	// finds no more. It is the cache's progress before that read, or the last event's
	// revision, which may be ahead of the progress.
	position, sent := w.position, int64(0)
	for {
		sent = max(sent, progress.Revision())
		n, next, grown, err := log.Read(position, buf)
		if err != nil {
			return expired(w.start.After, sent)
		}
		if err := w.convert(ctx, buf[:n]); err != nil {
			return err
		}
		for i := range buf[:n] {
			if err := w.sendEvent(ctx, &buf[i]); err != nil {
				return err
			}
		}
		if position = next; n > 0 {
			sent = max(sent, buf[n-1].Revision)
			clear(buf[:n])
			continue
		}
		if bookmarkDue {
			if sent >= w.start.After {
				if err := w.bookmark(ctx, sent, false); err != nil {
					return err
				}
			}
			timer, bookmarkDue = w.nextBookmark(ctx), false
		}
		select {
		case <-grown:
		case <-timer:
			bookmarkDue = true
		case <-w.done:
			return errStopped
		case <-ctx.Done():
			return errStopped
		case <-w.store.stop:
			return errStopped
		}
	}
}

// sendEvent sends the event of a change to this watch, if the change concerns the watch. An
// object that the watch begins to select is ADDED. An object that it ceases to select is
// DELETED, with its previous content.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.cacheWatcher.convertToWatchEvent; compare at each upgrade.
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
	if e.Entry == nil && e.Previous.Err != nil && !w.omits {
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

// corruptDeletion returns Kubernetes' error for the deletion of an object that cannot be
// read. The client has to list again.
//
// Upstream: k8s.io/apiserver/pkg/storage/etcd3.corruptObjectDeletedError.Error; compare at each upgrade.
func corruptDeletion(e *entry.Entry) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Reason:  metav1.StatusReasonStoreReadError,
		Message: fmt.Sprintf("saw a DELETED event, but object data is corrupt - %v", e.Err),
	}}
}

// selectedObject returns the object that an event sends of an entry, or nil if the watch
// does not select it. All watchers of the store share the object.
func (w *watcher) selectedObject(e *entry.Entry, revision int64) (runtime.Object, error) {
	if e.Err != nil && w.omits {
		return nil, nil
	}
	if e.Err != nil {
		return nil, e.Err
	}
	obj, err := w.store.ifSelected(&w.selection, e, func() (runtime.Object, error) {
		return w.store.shared.get(entryVersion{e, revision}, func() (runtime.Object, error) { return w.store.decodeAt(e, revision) })
	})
	if w.omits && !w.store.shows(e, obj, err) {
		return nil, nil
	}
	return obj, err
}

// selectedMarker stands for a previous object that was selected and will not be sent.
var selectedMarker runtime.Object = &runtime.Unknown{}

// previousObject returns the object before a change, or selectedMarker in its place, if the
// watch selected that object. Otherwise it returns nil. selectedNow says that the watch
// selects the object after the change: the previous object is then not sent. It is decoded
// only if it will be sent, or if attributes do not decide whether it was selected.
func (w *watcher) previousObject(e *cache.Event, selectedNow bool) (runtime.Object, error) {
	if selectedNow && w.selection.empty() {
		return selectedMarker, nil
	}
	if selectedNow && w.selection.whole && e.Previous.Err == nil {
		if w.selection.matches(e.Previous) {
			return selectedMarker, nil
		}
		return nil, nil
	}
	return w.selectedObject(e.Previous, e.Revision)
}

// bookmark sends a bookmark: the client has all changes up to revision.
func (w *watcher) bookmark(ctx context.Context, revision int64, initialEventsEnd bool) error {
	obj, err := w.store.Bookmark(revision, initialEventsEnd)
	if err != nil {
		return err
	}
	return w.send(ctx, watch.Event{Type: watch.Bookmark, Object: obj})
}

// nextBookmark returns a channel that receives when the next bookmark is due. It is nil
// for clients that do not understand bookmarks.
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
