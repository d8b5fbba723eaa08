package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/feed/apifeed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/storage"
)

// passOnAfter is how long a read waits until the cache is proven as new as it asks. A
// resource that changes often passes the upstream's revision within milliseconds, and a
// Millrace sends bookmarks each 100 ms. Other reads go to the upstream.
//
// A watch that begins with the newest state waits for the bookmark of a second watch
// (package apifeed): thousands of informers that begin at once would otherwise all go to
// the upstream, and each list the resource there. A list of several megabytes waits as long.
const (
	passOnAfter      = 300 * time.Millisecond
	watchPassOnAfter = 5 * time.Second
)

// FeedKey names a feed of an API server. inProtobuf tells the feed of objects in protobuf from
// the one of the same objects in JSON, if both are kept as they are sent. It is not set for
// objects that are decoded.
type FeedKey struct {
	schema.GroupResource
	InProtobuf bool
}

// protobufSuffix ends the names of feeds of objects in protobuf.
const protobufSuffix = "+protobuf"

// String is the name of the feed, in reports and of its checkpoint.
func (k FeedKey) String() string {
	if k.InProtobuf {
		return k.GroupResource.String() + protobufSuffix
	}
	return k.GroupResource.String()
}

// ParseFeedKey is the reverse of String.
func ParseFeedKey(name string) FeedKey {
	resource, ok := strings.CutSuffix(name, protobufSuffix)
	return FeedKey{schema.ParseGroupResource(resource), ok}
}

// API has the resources that are followed from an API server, each with a cache and
// a feed of its own: there is no order of events over several resources, so they have no
// progress in common. A resource is followed from its first read on.
type API struct {
	client *http.Client
	// host is the API server's URL, without a slash at its end.
	host string
	// cache configures each cache.
	cache  cache.Config
	logger *slog.Logger
	// maxStaleness is Backend.MaxStaleness of all resources.
	maxStaleness time.Duration
	// Checkpoints is nil if nothing is kept on disk.
	Checkpoints *Checkpoints
	// fail is called with an error that leaves the caches without a meaning.
	fail func(error)

	feeds sync.WaitGroup
	mu    struct {
		sync.Mutex
		byResource map[FeedKey]*Backend
		// stops end the feeds that run.
		stops map[FeedKey]context.CancelFunc
		// running is the context of feeds; nil before run.
		running context.Context
		// sibling is where feeds that are made load their objects; nil if that is the API
		// server alone.
		sibling *Sibling
	}
}

// NewAPI makes a source without resources. host is the server's URL without a slash at its end.
func NewAPI(client *http.Client, host string, b *Backends) *API {
	s := &API{
		client: client, host: host, cache: b.Cache, logger: b.Logger,
		maxStaleness: b.MaxStaleness, Checkpoints: b.Checkpoints, fail: b.fail,
	}
	s.mu.byResource, s.mu.stops = map[FeedKey]*Backend{}, map[FeedKey]context.CancelFunc{}
	return s
}

// ResourceFeed is the feed of a resource. It is empty until the resource is followed.
type ResourceFeed struct{ atomic.Pointer[apifeed.Feed] }

var ErrNotFollowed = errors.New("the resource is not followed yet")

// Revision implements cache.RevisionSource.
func (f *ResourceFeed) Revision(ctx context.Context) (int64, error) {
	if started := f.Load(); started != nil {
		return started.Revision(ctx)
	}
	return 0, ErrNotFollowed
}

// RequestProgress implements cache.RevisionSource.
func (f *ResourceFeed) RequestProgress(ctx context.Context) error {
	if started := f.Load(); started != nil {
		return started.RequestProgress(ctx)
	}
	return ErrNotFollowed
}

// Healthy implements feed.
func (f *ResourceFeed) Healthy() error {
	if started := f.Load(); started != nil {
		return started.Healthy()
	}
	return ErrNotFollowed
}

// BrokenSince implements feed.
func (f *ResourceFeed) BrokenSince() time.Time {
	if started := f.Load(); started != nil {
		return started.BrokenSince()
	}
	return time.Time{}
}

// HeardAt is apifeed.Feed.HeardAt.
func (f *ResourceFeed) HeardAt() time.Time {
	if started := f.Load(); started != nil {
		return started.HeardAt()
	}
	return time.Time{}
}

// open returns the backend of a feed, which it makes on first use.
func (s *API) open(key FeedKey) *storage.Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened := s.mu.byResource[key]
	if opened == nil {
		follows := &ResourceFeed{}
		opened = &Backend{Feed: follows, Servers: s.host + "/" + key.String(), close: func() {}}
		opened.Cache, opened.PassOnAfter, opened.WatchPassOnAfter, opened.MaxStaleness = cache.New(s.cache), passOnAfter, watchPassOnAfter, s.maxStaleness
		opened.Consistent = cache.NewConsistent(opened.Cache, follows)
		s.mu.byResource[key] = opened
	}
	return &opened.Backend
}

// FollowedVersion says how a resource is followed: in which version, and whether as
// protobuf. If it is optional, the server is ready though the resource was not loaded.
// verbatim and namespaced are those of apifeed.Config.
type FollowedVersion struct {
	schema.GroupVersionResource
	Protobuf, Optional, Verbatim, Namespaced bool
}

// Follow follows a resource from now on. It does nothing if the resource is followed
// already, or has no storage.
func (s *API) Follow(stored schema.GroupResource, served FollowedVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := FeedKey{stored, served.Verbatim && served.Protobuf}
	opened := s.mu.byResource[key]
	if opened == nil {
		return
	}
	follows, _ := opened.Feed.(*ResourceFeed)
	resources := opened.Cache.Resources()
	if follows.Load() != nil || len(resources) != 1 {
		return
	}
	root := "/apis/" + served.Group
	if served.Group == "" {
		root = "/api"
	}
	path := fmt.Sprintf("%s/%s/%s", root, served.Version, served.Resource)
	kept, checkpoint := s.Checkpoints.ofResource(key.String(), path, served.Protobuf)
	made := apifeed.New(apifeed.Config{
		Client: s.client, URL: s.host + path, Protobuf: served.Protobuf, Prefix: resources[0].Prefix(),
		Verbatim: served.Verbatim, Namespaced: served.Namespaced,
		Sink: opened.Cache, Checkpoint: checkpoint, Sibling: s.mu.sibling.at(path), Logger: s.logger,
	})
	if opened.Kept = kept; served.Optional {
		opened.tried = made.Tried()
	}
	follows.Store(made)
	if s.mu.running != nil {
		s.startLocked(key, made)
	}
}

// Drop ends the feeds of resources that are gone, and forgets their objects.
func (s *API) Drop(gone map[schema.GroupResource]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for gr := range gone {
		key := FeedKey{GroupResource: gr} // definitions do not come in protobuf
		if stop := s.mu.stops[key]; stop != nil {
			stop()
		}
		delete(s.mu.stops, key)
		delete(s.mu.byResource, key)
	}
}

// startLocked starts a feed, unless the source is ending.
func (s *API) startLocked(key FeedKey, f *apifeed.Feed) {
	if s.mu.running.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(s.mu.running)
	s.mu.stops[key] = stop
	s.feeds.Go(func() {
		defer stop()
		if err := f.Run(ctx); err != nil && ctx.Err() == nil {
			s.fail(err)
		}
	})
}

// run runs the feeds until the context ends.
func (s *API) run(ctx context.Context) {
	s.begin(ctx)
	<-ctx.Done()
	s.Drop(nil) // waits for a follow that has seen the context before its end
	s.feeds.Wait()
}

func (s *API) begin(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.running = ctx
	for key, b := range s.mu.byResource {
		if follows, ok := b.Feed.(*ResourceFeed); ok && follows.Load() != nil {
			s.startLocked(key, follows.Load())
		}
	}
}

// started returns the backends of the resources that are followed, in no order.
func (s *API) started() []*Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	var started []*Backend
	for _, b := range s.mu.byResource {
		if follows, ok := b.Feed.(*ResourceFeed); ok && follows.Load() != nil {
			started = append(started, b)
		}
	}
	return started
}

// depth is how many replicas events come through, this one included.
func (s *API) depth() int {
	depth := 1
	for _, b := range s.started() {
		if follows, ok := b.Feed.(*ResourceFeed); ok {
			depth = max(depth, follows.Load().Depth())
		}
	}
	return depth
}

// healthy returns an error if no feed follows the API server. A single one may fail for want
// of a right. Reads of its resource are passed on then, and the others go on.
func (s *API) healthy() (err error) {
	for _, b := range s.started() {
		if err = b.Feed.Healthy(); err == nil {
			return nil
		}
	}
	return err
}

// brokenSince is Backends.BrokenSince.
func (s *API) brokenSince(stored schema.GroupResource) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, inProtobuf := range []bool{false, true} {
		if b := s.mu.byResource[FeedKey{stored, inProtobuf}]; b != nil {
			if since := b.Feed.BrokenSince(); !since.IsZero() {
				return since
			}
		}
	}
	return time.Time{}
}
