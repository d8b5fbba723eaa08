package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/tier/cache"
)

const (
	// revisionTimeout bounds the wait of a read for the revision that it names, and for the
	// first load, if Config.PassOnAfter is 0. It is blockTimeout of Kubernetes' watch cache.
	revisionTimeout = 3 * time.Second
	// behindTimeout bounds the further wait if etcd has reached that revision. The sum of both
	// timeouts is a little less than the timeout of consistent reads.
	behindTimeout = 6 * time.Second
	// retrySeconds is how long clients are asked to wait before they retry.
	retrySeconds = 1
)

// waitFor waits until the cache is as fresh as resourceVersion asks. "" means every write
// acknowledged so far, "0" any state, and N at least revision N. If the snapshot is not nil, the
// caller must read that snapshot: only it is proven to be as fresh.
func (s *Store) waitFor(ctx context.Context, resourceVersion string, r readCost) (*cache.Snapshot, error) {
	if resourceVersion == "" {
		return s.waitNewest(ctx, r)
	}
	rv, err := s.versioner.ParseResourceVersion(resourceVersion)
	if err != nil && s.cfg.LikeEtcd {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if err != nil {
		return nil, err
	}
	if s.cfg.LikeEtcd {
		return nil, s.waitLikeEtcd(ctx, rv)
	}
	return nil, s.waitAtLeast(ctx, rv)
}

// readCost is what a read would cost the server that it would be passed on to. The zero value
// costs nothing.
type readCost struct {
	// examined is the number of objects that the other server would examine.
	examined int
	// patient says that the read waits for WatchPassOnAfter in place of PassOnAfter, because its
	// answer would be large.
	patient bool
}

// hasRevision reports whether the cache has reached rv. Clients may name
// numbers beyond the range of etcd's revisions.
func (s *Store) hasRevision(rv uint64) bool { return rv <= uint64(s.cfg.Cache.Progress().Revision()) }

// waitLikeEtcd waits until the cache holds rv if etcd has reached it. If etcd has not, it
// returns an error without waiting until etcd does.
//
// Upstream: k8s.io/apiserver/pkg/storage/etcd3.store.validateMinimumResourceVersion; compare at each upgrade.
func (s *Store) waitLikeEtcd(ctx context.Context, rv uint64) error {
	if s.hasRevision(rv) {
		return s.waitLoaded(ctx)
	}
	if err := s.waitProven(ctx, s.cfg.PassOnAfter); err != nil {
		return err
	}
	if !s.hasRevision(rv) {
		return storage.NewTooLargeResourceVersionError(rv, uint64(s.cfg.Cache.Progress().Revision()), 0)
	}
	return nil
}

// waitNewest waits until the cache holds every write acknowledged so far, or returns a
// snapshot that does. A read that accepts a stale state waits as waitBounded does.
func (s *Store) waitNewest(ctx context.Context, r readCost) (*cache.Snapshot, error) {
	stale := cache.StalenessFrom(ctx)
	switch {
	case stale != nil && s.cfg.MaxStaleness > 0:
		return nil, s.waitBounded(ctx, stale)
	case r.patient:
		return nil, s.waitProven(ctx, s.cfg.WatchPassOnAfter)
	case s.cfg.Prover == nil:
		return nil, s.waitProven(ctx, s.cfg.PassOnAfter)
	}
	began := time.Now()
	state, err := s.cfg.Prover.Prove(ctx, s.cfg.Resource, r.examined)
	s.recordConsistentRead(began, err)
	return state, err
}

// largeList is the size, in bytes of objects, from which a LIST or a watch-list is patient. A
// stock server needs some 30 ms of CPU for such a LIST.
const largeList = 4 << 20

// costOf estimates the cost of a list.
func (s *Store) costOf(l *listRequest) readCost {
	examined, large := s.extent(&l.query)
	return readCost{examined, large && s.cfg.WatchPassOnAfter > 0 && !l.query.Selects() && l.selection.whole}
}

// extent estimates how many objects are examined for a query, and whether its answer is
// large. It assumes that the scope will have the objects that it has now, and that they are of
// the resource's mean size.
func (s *Store) extent(q *cache.Query) (examined int, large bool) {
	snapshot := s.cfg.Resource.Snapshot()
	if snapshot.Len() == 0 {
		return 0, false
	}
	examined = snapshot.Total(q)
	objects := examined
	if q.Limit > 0 {
		objects = min(objects, q.Limit)
	}
	return examined, snapshot.Bytes/int64(snapshot.Len())*int64(objects) >= largeList
}

// waitWatch waits until the cache holds every write acknowledged so far, for a watch that
// begins with that state. Where the watch would cost another server little, it waits as a list
// does.
func (s *Store) waitWatch(ctx context.Context, sc scope, withInitial bool) error {
	if s.cfg.Prover == nil || s.isCostly(sc, withInitial) {
		return s.waitProven(ctx, cmp.Or(s.cfg.WatchPassOnAfter, s.cfg.PassOnAfter))
	}
	began := time.Now()
	err := s.cfg.Prover.ProveProgress(ctx)
	s.recordConsistentRead(began, err)
	return err
}

// isCostly records a watch that begins with the newest state, and reports whether it would cost
// another server much, by itself or with the others of the last second.
func (s *Store) isCostly(sc scope, withInitial bool) bool {
	if !withInitial {
		return s.cfg.Prover.AddWatchList(0)
	}
	examined, large := s.extent(&cache.Query{Prefix: sc.key, Single: !sc.recursive})
	return s.cfg.Prover.AddWatchList(examined) || large
}

// staleAfter is how long a read that accepts a stale state waits for a proof that the cache
// is new. Config.PassOnAfter replaces it if it is not 0.
const staleAfter = 300 * time.Millisecond

// waitBounded waits for a proof. If none comes in time, it accepts a state whose age is at most
// MaxStaleness, and notes the age in stale. If the state is older, a read that is not passed on
// waits as long as any other read.
func (s *Store) waitBounded(ctx context.Context, stale *cache.Staleness) error {
	wait := staleAfter
	if s.cfg.PassOnAfter > 0 {
		wait = s.cfg.PassOnAfter
	}
	err := s.waitProven(ctx, wait)
	if err == nil {
		return nil
	}
	if age, ok := s.cfg.Consistent.Age(); ok && age <= s.cfg.MaxStaleness {
		stale.Age = age
		return nil
	}
	if s.cfg.PassOnAfter > 0 {
		return err
	}
	return s.waitProven(ctx, 0)
}

// waitProven waits until the cache holds every write acknowledged so far, for at most timeout.
// If timeout is 0, only ctx and the timeout of consistent reads bound the wait.
func (s *Store) waitProven(ctx context.Context, timeout time.Duration) error {
	began := time.Now()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	_, err := s.cfg.Consistent.Wait(ctx)
	s.recordConsistentRead(began, err)
	switch {
	case err == nil:
		return nil
	case s.cfg.PassOnAfter > 0:
		return fmt.Errorf("%w: %w", cache.ErrUnproven, err)
	}
	return ConsistentReadError(err)
}

// ConsistentReadError returns the error for a client whose read waited too long for
// etcd to confirm the current revision. Clients may retry.
func ConsistentReadError(err error) error {
	return apierrors.NewTimeoutError(fmt.Sprintf(
		"etcd did not confirm the current revision in time (%v); retry, or read with resourceVersion=0 what the cache holds", err), retrySeconds)
}

// waitAtLeast waits until the cache has reached rv: for PassOnAfter at most if that is not 0, or
// else as waitBehind does.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.watchCache.waitUntilFreshLocked; compare at each upgrade.
func (s *Store) waitAtLeast(ctx context.Context, rv uint64) error {
	if err := s.waitLoaded(ctx); err != nil {
		return err
	}
	if s.hasRevision(rv) {
		return nil
	}
	if s.cfg.PassOnAfter > 0 {
		timeout := s.cfg.PassOnAfter
		if s.cfg.Prover != nil {
			timeout = s.cfg.Prover.Patience(timeout)
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if s.cfg.Cache.Progress().Wait(ctx, int64(min(rv, math.MaxInt64))) != nil {
			return fmt.Errorf("%w: revision %d is not reached", cache.ErrUnproven, rv)
		}
		return nil
	}
	return s.waitBehind(ctx, rv)
}

// waitBehind waits until the cache reaches rv. A client that comes from another server
// brings such a revision. Etcd is immediately asked for the feed's progress: the
// revision may belong to a write that the feed does not see.
//
// After revisionTimeout etcd is asked whether it has the revision. If it has, this server
// lags, and the read waits on, as a consistent one does. Kubernetes refuses such a read, and
// its client lists again.
func (s *Store) waitBehind(ctx context.Context, rv uint64) error {
	revision, progress := int64(min(rv, math.MaxInt64)), s.cfg.Cache.Progress()
	ctx, stopAll := context.WithTimeout(ctx, revisionTimeout+behindTimeout)
	defer stopAll()
	cancel := s.cfg.Consistent.Notify(revision, func() {})
	defer cancel()
	first, stop := context.WithTimeout(ctx, revisionTimeout)
	defer stop()
	if progress.Wait(first, revision) == nil {
		return nil
	}
	reached, err := s.cfg.Consistent.Revision(ctx)
	if err == nil && reached >= revision && progress.Wait(ctx, revision) == nil {
		return nil
	}
	return storage.NewTooLargeResourceVersionError(rv, uint64(progress.Revision()), retrySeconds)
}

// waitLoaded waits up to revisionTimeout for the first load, which every read needs. If
// PassOnAfter is not 0, it returns cache.ErrNotReady without waiting.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.ready.waitAndReadGeneration; compare at each upgrade.
func (s *Store) waitLoaded(ctx context.Context) error {
	if s.cfg.Cache.Ready() == nil {
		return nil
	}
	if s.cfg.PassOnAfter > 0 {
		return cache.ErrNotReady
	}
	ctx, cancel := context.WithTimeout(ctx, revisionTimeout)
	defer cancel()
	if err := s.cfg.Cache.Progress().Wait(ctx, 1); err != nil {
		return apierrors.NewTooManyRequests("storage is (re)initializing", retrySeconds)
	}
	return nil
}

// expired returns the error of a watch from rv whose next events were dropped. The message names
// oldest: the first revision that a watch can begin after, or how far this watch has come.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.watchCache.getAllEventsSinceLocked; compare at each upgrade.
func expired(rv, oldest int64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", rv, oldest))
}

func isExpired(err error) bool { return errors.Is(err, cache.ErrExpired) }
