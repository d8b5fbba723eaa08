package storage

import (
	"context"
	"fmt"
	"math"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/tier/cache"
	mrwatch "github.com/millrace/millrace/internal/tier/watch"
)

// Watch implements storage.Interface. Errors of a well-formed request are sent as an
// event, as Kubernetes does.
func (s *Store) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	sc, ok, err := s.scope(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	rv, err := s.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	sel, unknown := s.selection(&opts.Predicate)
	if !ok || unknown != nil || opts.ProgressNotify {
		// ProgressNotify asks for etcd's own notifications.
		return s.cfg.Etcd.Watch(ctx, key, opts)
	}
	from, err := s.startPoint(ctx, rv, sc, opts)
	if err != nil {
		return newFailedWatch(err), nil
	}
	w, err := newWatcher(s, from, sel, opts)
	if err != nil {
		return newFailedWatch(err), nil
	}
	go w.run(ctx)
	return w, nil
}

// Begin returns where a watch begins, once the cache is as fresh as the watch asks.
// The caller sends an error as an event. An error that wraps cache.ErrExpired means
// that only etcd may have the events.
func (s *Store) Begin(ctx context.Context, key string, opts storage.ListOptions) (cache.StartPoint, error) {
	sc, ok, err := s.scope(key, opts.Recursive)
	if err != nil {
		return cache.StartPoint{}, err
	}
	rv, err := s.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return cache.StartPoint{}, err
	}
	if !ok {
		return cache.StartPoint{}, fmt.Errorf("watch %s: %w", key, cache.ErrExpired)
	}
	return s.startPoint(ctx, rv, sc, opts)
}

// startPoint returns where a watch begins, once the cache is as fresh as the watch asks. The
// rules are the API's: KEP-3157 for sendInitialEvents. Without that, a resource version of ""
// or "0" means synthetic initial events.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.Cacher.Watch; compare at each upgrade.
func (s *Store) startPoint(ctx context.Context, rv uint64, sc scope, opts storage.ListOptions) (cache.StartPoint, error) {
	if err := s.waitLoaded(ctx); err != nil {
		return cache.StartPoint{}, err
	}
	withInitial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	withoutInitial := opts.SendInitialEvents != nil && !withInitial
	switch {
	case opts.SendInitialEvents != nil && opts.ResourceVersion == "":
		if err := s.waitWatch(ctx, sc, withInitial); err != nil {
			return cache.StartPoint{}, err
		}
	case withInitial:
		if err := s.waitAtLeast(ctx, rv); err != nil {
			return cache.StartPoint{}, err
		}
	}
	// A number beyond etcd's range is cut to the largest revision: the cache reaches
	// neither.
	after := int64(min(rv, math.MaxInt64))
	from := cache.StartPoint{Scope: cache.Scope{Prefix: sc.key, Single: !sc.recursive}, After: after}
	snapshot := s.cfg.Resource.Snapshot()
	if withInitial || rv == 0 {
		from.After = snapshot.Revision
	}
	if withInitial || rv == 0 && !withoutInitial {
		from.Initial = &snapshot
	}
	return from, nil
}

// Expired returns the error of a watch whose next events, with revisions above after, are
// gone.
func (s *Store) Expired(after int64) error {
	_, oldest, _ := s.cfg.Resource.Log().Since(after)
	return expired(after, oldest)
}

// Ahead returns the error of a watch from after, a revision that etcd has not reached:
// the client has to list again. Its resource may have been moved from another etcd.
// Ahead returns nil if etcd has reached after or does not answer. requested is the
// resource version as the client wrote it.
func (s *Store) Ahead(ctx context.Context, after int64, requested string) error {
	revision, err := s.cfg.Consistent.Wait(ctx)
	if err != nil || revision >= after {
		return nil
	}
	return apierrors.NewResourceExpired(fmt.Sprintf("resource version %s is ahead of etcd, which is at %d: list again", requested, revision))
}

// Bookmark returns the object of a bookmark: the client has all changes up to revision.
// With initialEventsEnd, the client also has all initial events.
func (s *Store) Bookmark(revision int64, initialEventsEnd bool) (runtime.Object, error) {
	obj := s.cfg.New()
	if err := s.versioner.UpdateObject(obj, uint64(revision)); err != nil {
		return nil, fmt.Errorf("make bookmark: %w", err)
	}
	if initialEventsEnd {
		if err := storage.AnnotateInitialEventsEndBookmark(obj); err != nil {
			return nil, fmt.Errorf("make bookmark: %w", err)
		}
	}
	return obj, nil
}

// failedWatch is a watch that sends one error and ends.
type failedWatch struct{ result chan watch.Event }

// newFailedWatch makes a watch that sends an error.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.newErrWatcher; compare at each upgrade.
func newFailedWatch(err error) watch.Interface {
	w := &failedWatch{result: make(chan watch.Event, 1)}
	w.result <- errorEvent(err)
	close(w.result)
	return w
}

func (w *failedWatch) ResultChan() <-chan watch.Event { return w.result }
func (w *failedWatch) Stop()                          {}

func errorEvent(err error) watch.Event {
	return watch.Event{Type: watch.Error, Object: mrwatch.Status(err)}
}
