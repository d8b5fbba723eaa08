package follow

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/apifeed"
	"github.com/millrace/millrace/internal/tier/source"
)

// State is what a resource is in. The package comment has the states and what they mean.
type State string

// The states, as metrics and reports name them.
const (
	Absent    State = "absent"
	Loading   State = "loading"
	Following State = "following"
	Doubtful  State = "doubtful"
	Stale     State = "stale"
	Refused   State = "refused"
)

// States returns all states.
func States() []State { return []State{Absent, Loading, Following, Doubtful, Stale, Refused} }

// FollowedResource is one resource of the upstream in one form: its cache, and the feed that fills
// it while the resource is followed.
type FollowedResource struct {
	key     Key
	backend source.Backend
	// run is nil while the resource is not followed.
	run atomic.Pointer[run]
	// readAt is when Resources.Follow was last called, as each read does, in nanoseconds since
	// 1970.
	readAt atomic.Int64
	// readInJSON and readInProtobuf are the forms in which a built-in resource was read.
	readInJSON, readInProtobuf atomic.Bool
	// refused is the newest refusal, which may be over. It is nil if there was none since the
	// resource was followed or changed.
	refused atomic.Pointer[refusalUntil]

	// The fields below are guarded by Resources.mu.

	// request is the request that started the newest feed.
	request Request
	// named says that one of the requests was Named or Needed.
	named bool
	// again says that the resource is to be followed once settledAt is over, read or not.
	again bool
	// outdated says that the resource has changed since the newest feed began. Objects on disk or
	// of another replica may be as the upstream sent them before.
	outdated bool
	// freeAt is when the cache frees the objects of a resource that is no longer followed. It is
	// zero if there are no objects to free.
	freeAt time.Time
	// settledAt is when the upstream is expected to serve what has changed. It is zero before
	// the first change.
	settledAt time.Time
}

// run is a feed that fills the cache, with what belongs to it.
type run struct {
	version Version
	feed    *apifeed.Feed
	gate    *gate
	kept    source.KeptBackend
	// stop ends the feed. It is nil before the feed runs. Resources.mu guards it.
	stop context.CancelFunc
}

var errNotFollowed = errors.New("the resource is not followed yet")

// currentFeed returns the feed. It returns nil if the resource is not followed.
func (f *FollowedResource) currentFeed() *apifeed.Feed {
	if r := f.run.Load(); r != nil {
		return r.feed
	}
	return nil
}

// noteRead records the form of a read. f may be nil.
func (f *FollowedResource) noteRead(protobuf bool) {
	switch {
	case f == nil:
	case protobuf:
		f.readInProtobuf.Store(true)
	default:
		f.readInJSON.Store(true)
	}
}

// kept implements source.Backend's Kept.
func (f *FollowedResource) kept() source.KeptBackend {
	if r := f.run.Load(); r != nil {
		return r.kept
	}
	return source.KeptBackend{}
}

// Revision implements cache.RevisionSource.
func (f *FollowedResource) Revision(ctx context.Context) (int64, error) {
	if current := f.currentFeed(); current != nil {
		return current.Revision(ctx)
	}
	return 0, errNotFollowed
}

// RequestProgress implements cache.RevisionSource.
func (f *FollowedResource) RequestProgress(ctx context.Context) error {
	if current := f.currentFeed(); current != nil {
		return current.RequestProgress(ctx)
	}
	return errNotFollowed
}

// Contents implements cache.ContentsSource.
func (f *FollowedResource) Contents(ctx context.Context) ([]feed.Object, int64, error) {
	if current := f.currentFeed(); current != nil {
		return current.Contents(ctx)
	}
	return nil, 0, errNotFollowed
}

// ProgressWithin implements cache.ContentsSource.
func (f *FollowedResource) ProgressWithin() time.Duration {
	if current := f.currentFeed(); current != nil {
		return current.ProgressWithin()
	}
	return 0
}

// Contradict implements cache.ContentsSource.
func (f *FollowedResource) Contradict(reason error) {
	if current := f.currentFeed(); current != nil {
		current.Contradict(reason)
	}
}

// Healthy implements source.Feed.
func (f *FollowedResource) Healthy() error {
	if current := f.currentFeed(); current != nil {
		return current.Healthy()
	}
	return errNotFollowed
}

// BrokenSince implements source.Feed.
func (f *FollowedResource) BrokenSince() time.Time {
	if current := f.currentFeed(); current != nil {
		return current.BrokenSince()
	}
	return time.Time{}
}

// HeardAt returns when the feed last received something. It returns zero before the feed
// has received anything.
func (f *FollowedResource) HeardAt() time.Time {
	if current := f.currentFeed(); current != nil {
		return current.HeardAt()
	}
	return time.Time{}
}

// Surroundings returns the Surroundings of the feed. It returns nil if the resource is not
// followed. f may be nil.
func (f *FollowedResource) Surroundings() *apifeed.Surroundings {
	if f == nil {
		return nil
	}
	if current := f.currentFeed(); current != nil {
		return current.Surroundings()
	}
	return nil
}

// state returns the state. away says that no feed is healthy.
func (f *FollowedResource) state(away bool, now time.Time) State {
	switch {
	case f.refusal(now) != "":
		return Refused
	case f.currentFeed() == nil:
		return Absent
	case f.Healthy() == nil:
		return Following
	case f.backend.Cache.Ready() != nil:
		return Loading
	case away:
		return Stale
	}
	return Doubtful
}

// refusal returns why the resource may not be followed now. It returns "" if it may be
// followed.
func (f *FollowedResource) refusal(now time.Time) Refusal {
	if r := f.refused.Load(); r != nil && now.Before(r.until) {
		return r.why
	}
	return ""
}

// bytes returns the bytes of the objects in the cache and of the load under way, as stored.
func (f *FollowedResource) bytes() (sum int64) {
	if r := f.run.Load(); r != nil {
		sum = r.gate.loading.Load()
	}
	for _, r := range f.backend.Cache.Resources() {
		sum += r.Snapshot().Bytes
	}
	return sum
}

// waitLoaded waits until the first load has succeeded or failed. Unless optional is true, it
// then waits until the cache has loaded, the upstream refuses the feed, or the feed has ended.
func (f *FollowedResource) waitLoaded(ctx context.Context, r *run, optional bool) error {
	select {
	case <-r.feed.Tried():
	case <-ctx.Done():
		return ctx.Err()
	}
	for !optional && f.run.Load() == r && f.backend.Cache.Ready() != nil && !isRefused(r.feed) {
		select {
		case <-time.After(loadCheck):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// isRefused reports whether the upstream refuses a feed.
func isRefused(f *apifeed.Feed) bool {
	status, _ := f.RefusalStatus()
	return status != 0
}

// loadCheck is the time between two looks of waitLoaded.
const loadCheck = 50 * time.Millisecond
