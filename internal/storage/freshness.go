package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/cache"
)

const (
	// revisionTimeout is how long a read waits for a revision that it named, as in
	// Kubernetes' watch cache: clients retry.
	revisionTimeout = 3 * time.Second
	// retrySeconds is what clients are told to wait.
	retrySeconds = 1
)

// waitFor makes the cache as fresh as a request's resource version asks for:
// "" is everything acknowledged so far, "0" anything, N at least N.
func (s *Store) waitFor(ctx context.Context, resourceVersion string) error {
	if resourceVersion == "" {
		return s.waitConsistent(ctx)
	}
	rv, err := s.versioner.ParseResourceVersion(resourceVersion)
	if err != nil && s.cfg.LikeEtcd {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if err != nil {
		return err
	}
	if s.cfg.LikeEtcd {
		return s.waitLikeEtcd(ctx, rv)
	}
	return s.waitAtLeast(ctx, rv)
}

// hasRevision reports whether the cache holds a revision. Clients may name numbers
// that no revision can have.
func (s *Store) hasRevision(rv uint64) bool { return rv <= uint64(s.cfg.Cache.Progress().Revision()) }

// waitLikeEtcd refuses revisions that etcd has not reached, without waiting for
// them.
func (s *Store) waitLikeEtcd(ctx context.Context, rv uint64) error {
	if s.hasRevision(rv) {
		return s.waitLoaded(ctx)
	}
	if err := s.waitConsistent(ctx); err != nil {
		return err
	}
	if !s.hasRevision(rv) {
		return storage.NewTooLargeResourceVersionError(rv, uint64(s.cfg.Cache.Progress().Revision()), 0)
	}
	return nil
}

func (s *Store) waitConsistent(ctx context.Context) error {
	began := time.Now()
	_, err := s.cfg.Consistent.Wait(ctx)
	s.recordConsistentRead(began, err)
	if err != nil {
		return ConsistentReadError(err)
	}
	return nil
}

// ConsistentReadError is what a client is told when etcd did not confirm the
// current revision in time. It is retriable.
func ConsistentReadError(err error) error {
	return apierrors.NewTimeoutError(fmt.Sprintf(
		"etcd did not confirm the current revision in time (%v); retry, or read with resourceVersion=0 what the cache holds", err), retrySeconds)
}

func (s *Store) waitAtLeast(ctx context.Context, rv uint64) error {
	if err := s.waitLoaded(ctx); err != nil {
		return err
	}
	if s.hasRevision(rv) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, revisionTimeout)
	defer cancel()
	progress := s.cfg.Cache.Progress()
	if err := progress.Wait(ctx, int64(min(rv, math.MaxInt64))); err != nil {
		return storage.NewTooLargeResourceVersionError(rv, uint64(progress.Revision()), retrySeconds)
	}
	return nil
}

// waitLoaded waits for the first load, which every read needs.
func (s *Store) waitLoaded(ctx context.Context) error {
	if s.cfg.Cache.Ready() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, revisionTimeout)
	defer cancel()
	if err := s.cfg.Cache.Progress().Wait(ctx, 1); err != nil {
		return apierrors.NewTooManyRequests("storage is (re)initializing", retrySeconds)
	}
	return nil
}

// expired is the answer to a watch from a revision whose events are gone.
func expired(rv, oldest int64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", rv, oldest))
}

func isExpired(err error) bool { return errors.Is(err, cache.ErrExpired) }
