package storage

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/cache"
)

// Watch implements storage.Interface. Errors of a request that is well formed
// are sent as an event, as Kubernetes does it.
func (s *Store) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	sc, ok, err := s.scope(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	rv, err := s.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if !ok || sharded(opts) || opts.ProgressNotify {
		// ProgressNotify asks for the notifications of etcd itself.
		return s.cfg.Etcd.Watch(ctx, key, opts)
	}
	if err := s.waitLoaded(ctx); err != nil {
		return nil, err
	}
	start, err := s.start(ctx, int64(rv), sc, opts)
	if err != nil {
		return failed(err), nil
	}
	w := newWatcher(s, sc, opts, start)
	go w.run(ctx)
	return w, nil
}

// start is where a watch begins.
type start struct {
	// initial is sent first, as ADDED events. Nil sends nothing.
	initial *cache.Snapshot
	// cursor is at the first event behind after; events up to after are left out.
	cursor cache.Cursor
	after  int64
}

// start finds the place of a watch by the rules of the API (KEP-3157 for
// sendInitialEvents; unset and "0" without it mean synthetic initial events).
func (s *Store) start(ctx context.Context, rv int64, _ scope, opts storage.ListOptions) (start, error) {
	withInitial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	withoutInitial := opts.SendInitialEvents != nil && !withInitial
	switch {
	case opts.SendInitialEvents != nil && opts.ResourceVersion == "":
		if err := s.waitConsistent(ctx); err != nil {
			return start{}, err
		}
	case withInitial:
		if err := s.waitAtLeast(ctx, uint64(rv)); err != nil {
			return start{}, err
		}
	}
	snapshot := s.cfg.Resource.Snapshot()
	if withoutInitial && rv == 0 {
		rv = snapshot.Revision
	}
	if withInitial || rv == 0 {
		return s.from(snapshot.Revision, &snapshot)
	}
	return s.from(rv, nil)
}

func (s *Store) from(rv int64, initial *cache.Snapshot) (start, error) {
	cursor, oldest, err := s.cfg.Resource.Log().Since(rv)
	if err != nil {
		return start{}, expired(rv, oldest)
	}
	return start{initial: initial, cursor: cursor, after: rv}, nil
}

// failedWatch sends one error and ends.
type failedWatch struct{ result chan watch.Event }

func failed(err error) watch.Interface {
	w := &failedWatch{result: make(chan watch.Event, 1)}
	w.result <- errorEvent(err)
	close(w.result)
	return w
}

func (w *failedWatch) ResultChan() <-chan watch.Event { return w.result }
func (w *failedWatch) Stop()                          {}

func errorEvent(err error) watch.Event {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		return watch.Event{Type: watch.Error, Object: &s}
	}
	return watch.Event{Type: watch.Error, Object: &metav1.Status{
		Status:  metav1.StatusFailure,
		Message: err.Error(),
		Reason:  metav1.StatusReasonInternalError,
		Code:    http.StatusInternalServerError,
	}}
}
