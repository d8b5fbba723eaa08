package server

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

	"github.com/millrace/millrace/internal/apifeed"
	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/storage"
)

// passOnAfter is how long a read waits until the cache is proven as new as it asks. A
// resource that changes often passes the upstream's revision within milliseconds, and a
// Millrace sends bookmarks each 100 ms. Other reads go to the upstream.
const passOnAfter = 300 * time.Millisecond

// apiSource has the resources that are followed from an API server, each with a cache and
// a feed of its own: there is no order of events over several resources, so they have no
// progress in common. A resource is followed from its first read on.
type apiSource struct {
	client *http.Client
	// host is the API server's URL, without a slash at its end.
	host string
	// cache configures each cache.
	cache cache.Config
	// maxStaleness is Backend.MaxStaleness of all resources.
	maxStaleness time.Duration
	logger       *slog.Logger
	// failed receives the first error that leaves the caches without a meaning.
	failed chan error

	feeds sync.WaitGroup
	mu    struct {
		sync.Mutex
		byResource map[schema.GroupResource]*backend
		// stops end the feeds that run.
		stops map[schema.GroupResource]context.CancelFunc
		// running is the context of feeds; nil before run.
		running context.Context
	}
}

func newAPISource(client *http.Client, host string, cfg cache.Config, logger *slog.Logger) *apiSource {
	s := &apiSource{client: client, host: strings.TrimSuffix(host, "/"), cache: cfg, logger: logger, failed: make(chan error, 1)}
	s.mu.byResource, s.mu.stops = map[schema.GroupResource]*backend{}, map[schema.GroupResource]context.CancelFunc{}
	return s
}

// resourceFeed is the feed of a resource. It is empty until the resource is followed.
type resourceFeed struct{ atomic.Pointer[apifeed.Feed] }

var errNotFollowed = errors.New("the resource is not followed yet")

// Revision implements cache.RevisionSource.
func (f *resourceFeed) Revision(ctx context.Context) (int64, error) {
	if started := f.Load(); started != nil {
		return started.Revision(ctx)
	}
	return 0, errNotFollowed
}

// RequestProgress implements cache.RevisionSource.
func (f *resourceFeed) RequestProgress(ctx context.Context) error {
	if started := f.Load(); started != nil {
		return started.RequestProgress(ctx)
	}
	return errNotFollowed
}

// Healthy implements feed.
func (f *resourceFeed) Healthy() error {
	if started := f.Load(); started != nil {
		return started.Healthy()
	}
	return errNotFollowed
}

// open returns the backend of a resource, which it makes on first use.
func (s *apiSource) open(gr schema.GroupResource) *storage.Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened := s.mu.byResource[gr]
	if opened == nil {
		follows := &resourceFeed{}
		opened = &backend{feed: follows, servers: s.host + "/" + gr.String(), close: func() {}}
		opened.Cache, opened.PassOnAfter, opened.MaxStaleness = cache.New(s.cache), passOnAfter, s.maxStaleness
		opened.Consistent = cache.NewConsistent(opened.Cache, follows)
		s.mu.byResource[gr] = opened
	}
	return &opened.Backend
}

// follow follows a resource from now on. served is the version in which it is followed. It
// does nothing if the resource is followed already, or has no storage.
func (s *apiSource) follow(stored schema.GroupResource, served schema.GroupVersionResource, protobuf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened := s.mu.byResource[stored]
	if opened == nil {
		return
	}
	follows, _ := opened.feed.(*resourceFeed)
	resources := opened.Cache.Resources()
	if follows.Load() != nil || len(resources) != 1 {
		return
	}
	root := "/apis/" + served.Group
	if served.Group == "" {
		root = "/api"
	}
	made := apifeed.New(apifeed.Config{
		Client: s.client, URL: fmt.Sprintf("%s%s/%s/%s", s.host, root, served.Version, served.Resource),
		Protobuf: protobuf, Prefix: resources[0].Prefix(), Sink: opened.Cache, Logger: s.logger,
	})
	follows.Store(made)
	if s.mu.running != nil {
		s.startLocked(stored, made)
	}
}

// drop ends the feeds of resources that are gone, and forgets their objects.
func (s *apiSource) drop(gone map[schema.GroupResource]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for gr := range gone {
		if stop := s.mu.stops[gr]; stop != nil {
			stop()
		}
		delete(s.mu.stops, gr)
		delete(s.mu.byResource, gr)
	}
}

// startLocked starts a feed, unless the source is ending.
func (s *apiSource) startLocked(gr schema.GroupResource, f *apifeed.Feed) {
	if s.mu.running.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(s.mu.running)
	s.mu.stops[gr] = stop
	s.feeds.Go(func() {
		defer stop()
		if err := f.Run(ctx); err != nil && ctx.Err() == nil {
			select {
			case s.failed <- err:
			default: // an earlier error ends the server
			}
		}
	})
}

// run runs the feeds until the context ends.
func (s *apiSource) run(ctx context.Context) {
	s.begin(ctx)
	<-ctx.Done()
	s.drop(nil) // waits for a follow that has seen the context before its end
	s.feeds.Wait()
}

func (s *apiSource) begin(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.running = ctx
	for gr, b := range s.mu.byResource {
		if follows, ok := b.feed.(*resourceFeed); ok && follows.Load() != nil {
			s.startLocked(gr, follows.Load())
		}
	}
}

// started returns the backends of the resources that are followed, in no order.
func (s *apiSource) started() []*backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	var started []*backend
	for _, b := range s.mu.byResource {
		if follows, ok := b.feed.(*resourceFeed); ok && follows.Load() != nil {
			started = append(started, b)
		}
	}
	return started
}
