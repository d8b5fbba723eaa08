package follow

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/feed/apifeed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/source"
	"github.com/millrace/millrace/internal/tier/storage"
)

// passOnAfter is how long a read waits until the cache is proven to be as new as the read
// asks. The cache of a resource that changes often passes the upstream's revision within
// milliseconds, and a Millrace sends bookmarks each 100 ms. Other reads go to the upstream.
//
// watchPassOnAfter is the same for a watch that begins with the newest state, if the watches of
// a second that do so cost much. It waits for the bookmark of a second watch (package apifeed).
// Otherwise thousands of informers that begin at the same time would all go to the upstream,
// and each list the resource there. A large list without selectors waits as long.
const (
	passOnAfter      = 300 * time.Millisecond
	watchPassOnAfter = 5 * time.Second
)

const (
	// maxBroken is how long a feed may be broken, while the upstream answers others, before the
	// resource is given up. It must be long enough for a feed to tell a dead connection from a
	// resource that does not change.
	maxBroken = 90 * time.Second
	// retryPeriod is how long reads of a resource that was given up are passed on before it is
	// tried again.
	retryPeriod = 5 * time.Minute
	// silentRetryPeriod is retryPeriod for a resource whose feed was broken.
	silentRetryPeriod = 30 * time.Second
	// settlePeriod is the time from a watch event of a definition until the upstream's servers
	// are expected to serve the new definition.
	settlePeriod = time.Second
	// unsettledPeriod is how long after settledAt a busy server of the upstream may still serve
	// the old definition. If it ends a watch early in that time, the resource is loaded again.
	unsettledPeriod = time.Minute
	// freePeriod is how long objects stay in memory for reads that had begun before the feed
	// was ended.
	freePeriod  = 30 * time.Second
	sweepPeriod = time.Second
	// maxLoads bounds the resources that load at a time. Resources that the replica itself
	// needs do not count.
	maxLoads = 8
)

// Config configures Resources. Client, Host and Logger are needed.
type Config struct {
	// Client sends the requests of feeds.
	Client *http.Client
	// Host is the upstream's URL, without a slash at its end.
	Host string
	// MaxBytes bounds the objects of all followed resources together, as stored. Only resources
	// that the operator has not named are given up to keep it. 0 is no bound.
	MaxBytes int64
	// DropAfter is how long a resource may be unread before its objects go, unless the operator
	// has named it or the replica needs it. 0 is for ever.
	DropAfter time.Duration
	// Checkpoints are nil if nothing is kept on disk.
	Checkpoints *Checkpoints
	// Sibling is where first loads at the start come from. It is nil if first loads come
	// from the upstream alone.
	Sibling *Sibling
	Logger  *slog.Logger
	// Clock is used for sweeps, and for the times of reads and refusals. Nil means the real
	// clock.
	Clock clock.WithTicker
}

// Resources is the source of a replica that follows its upstream's API: resources, each with a
// cache and a feed of its own. There is no order of events over several resources, so they
// have no progress in common.
type Resources struct {
	cfg      Config
	backends *source.Backends

	// followAgain is what SetFollowAgain has set.
	followAgain func(Key)
	admission   *admission
	// loadSemaphore bounds the simultaneous loads: a send takes a slot, a receive frees it.
	loadSemaphore chan struct{}
	// feeds has the goroutines of feeds.
	feeds sync.WaitGroup
	mu    struct {
		sync.Mutex
		byKey map[Key]*FollowedResource
		// running is the context of feeds. It is nil before Run.
		running context.Context
		// sibling is Config.Sibling until the start is over.
		sibling *Sibling
	}
}

var _ source.Source = (*Resources)(nil)

// New makes Resources that follow nothing yet, and sets b.Source to them.
func New(b *source.Backends, cfg Config) *Resources {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	s := &Resources{cfg: cfg, backends: b, followAgain: func(Key) {}, loadSemaphore: make(chan struct{}, maxLoads)}
	client := *cfg.Client
	s.admission = &admission{admit: func(context.Context) error { return nil }, endedEarly: s.endedEarly, next: client.Transport}
	client.Transport = s.admission
	s.cfg.Client = &client
	s.mu.byKey, s.mu.sibling = map[Key]*FollowedResource{}, cfg.Sibling
	b.Source = s
	return s
}

// Of implements source.Source.
func (s *Resources) Of(config *storagebackend.ConfigForResource) (*storage.Backend, error) {
	return s.open(Key{GroupResource: config.GroupResource}), nil
}

// ProtobufBackend implements storage.Decorator.Protobuf.
func (s *Resources) ProtobufBackend(gr schema.GroupResource) *storage.Backend {
	if !hasProtobuf(gr) {
		return nil
	}
	return s.open(Key{gr, true})
}

// open returns the backend of a resource, which it makes on first use.
func (s *Resources) open(key Key) *storage.Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.mu.byKey[key]
	if f == nil {
		f = &FollowedResource{key: key, backend: source.Backend{Servers: s.cfg.Host + "/" + key.String()}}
		b := &f.backend
		b.Feed, b.Cache, b.PassOnAfter, b.WatchPassOnAfter, b.MaxStaleness = f, cache.New(s.backends.Cache), passOnAfter, watchPassOnAfter, s.backends.MaxStaleness
		b.Consistent, b.Kept = cache.NewConsistent(b.Cache, f), f.kept
		b.Prover = cache.NewProver(b.Cache, b.Consistent, f)
		s.mu.byKey[key] = f
	}
	return &f.backend.Backend
}

// lookup returns the resource of a key. It returns nil if the key has no backend.
func (s *Resources) lookup(key Key) *FollowedResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.byKey[key]
}

// SetFollowAgain sets the function that follows a resource again, as a read does. Sweeps call
// it with resources that were given up for a while, or are to be loaded again. It must be
// called before Run.
func (s *Resources) SetFollowAgain(follow func(Key)) { s.followAgain = follow }

// SetAdmit sets the function that is called before a feed opens a watch at the upstream. If it
// returns an error, the feed does not open the watch. It must be called before Run.
func (s *Resources) SetAdmit(admit func(context.Context) error) { s.admission.admit = admit }

// State returns the state of a resource.
func (s *Resources) State(key Key) State {
	if f := s.lookup(key); f != nil {
		return f.state(s.Healthy() != nil, s.cfg.Clock.Now())
	}
	return Absent
}

// Follow starts to follow a resource, unless it is followed already. It returns the version
// that is followed, or the reason why the resource is not. Both are empty if the resource has
// no backend or store yet, or has not settled after a change.
func (s *Resources) Follow(key Key, r Request) (Version, Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.mu.byKey[key]
	if f == nil {
		return Version{}, ""
	}
	now := s.cfg.Clock.Now()
	f.readAt.Store(now.UnixNano())
	f.named = f.named || r.Named || r.Needed
	if current := f.run.Load(); current != nil {
		return current.version, ""
	}
	if why := f.refusal(now); why != "" {
		return Version{}, why
	}
	if len(f.backend.Cache.Resources()) != 1 || now.Before(f.settledAt) {
		return Version{}, ""
	}
	if !f.named && s.isFullLocked() {
		return Version{}, overFollowBytes
	}
	s.startLocked(f, r)
	return r.Version, ""
}

// refusalInAnyForm returns why a stored resource may not be followed in some form. It returns ""
// if the resource may be followed in all forms.
func (s *Resources) refusalInAnyForm(stored schema.GroupResource) Refusal {
	now := s.cfg.Clock.Now()
	for _, inProtobuf := range []bool{false, true} {
		if f := s.lookup(Key{stored, inProtobuf}); f != nil && f.refusal(now) != "" {
			return f.refusal(now)
		}
	}
	return ""
}

// startLocked makes the feed of a resource, and runs it if feeds run.
func (s *Resources) startLocked(f *FollowedResource, r Request) {
	path := r.path()
	passes := &gate{sink: f.backend.Cache, grown: func() { s.loadGrew(f) }}
	cfg := apifeed.Config{
		Client: s.cfg.Client, URL: s.cfg.Host + path, Protobuf: r.Protobuf, Prefix: f.backend.Cache.Resources()[0].Prefix(),
		Verbatim: r.Verbatim, Namespaced: r.Namespaced, Sink: passes, Logger: s.cfg.Logger,
		Uncompressed: f.key.GroupResource == secrets,
	}
	if !r.Needed {
		cfg.LoadSemaphore = s.loadSemaphore
	}
	current := &run{version: r.Version, gate: passes}
	if f.key.GroupResource != definitions {
		cfg.WentBack = func(ctx context.Context) (bool, error) { return s.wentBack(ctx, current.feed) }
	}
	if !r.UpstreamOnly {
		current.kept, cfg.Checkpoint = s.cfg.Checkpoints.forResource(f.key, &r)
		cfg.Sibling = s.mu.sibling.forPath(path)
	}
	if f.outdated {
		cfg.Checkpoint, cfg.Sibling = nil, nil
	}
	f.refused.Store(nil)
	f.freeAt, f.again, f.outdated, f.request = time.Time{}, false, false, r
	current.feed = apifeed.New(cfg)
	f.run.Store(current)
	if s.mu.running != nil {
		s.runLocked(current)
	}
}

// runLocked runs a feed, unless the source is ending.
func (s *Resources) runLocked(r *run) {
	if s.mu.running.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(s.mu.running)
	r.stop = stop
	s.feeds.Go(func() {
		defer stop()
		if err := r.feed.Run(ctx); err != nil && ctx.Err() == nil {
			s.backends.Fail(err)
		}
	})
}

// Drop forgets resources whose definitions are gone, with their caches and checkpoints.
func (s *Resources) Drop(gone map[schema.GroupResource]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for gr := range gone {
		key := Key{GroupResource: gr} // custom resources do not come in protobuf
		if f := s.mu.byKey[key]; f != nil {
			s.endLocked(f)
			s.cfg.Checkpoints.remove(key)
			delete(s.mu.byKey, key)
		}
	}
}

// endLocked ends the feed of a resource. Nothing reaches the cache from the feed any more. It
// returns false if there is no feed.
func (s *Resources) endLocked(f *FollowedResource) bool {
	r := f.run.Swap(nil)
	if r == nil {
		return false
	}
	r.gate.close()
	if r.stop != nil {
		r.stop()
	}
	return true
}

// StartIsOver makes later feeds load from the upstream alone. The sibling was checked at the
// start, and definitions may have changed since.
func (s *Resources) StartIsOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.sibling = nil
}

// Run implements source.Source.
func (s *Resources) Run(ctx context.Context) {
	s.begin(ctx)
	s.sweepUntil(ctx)
	s.waitStarts()
	s.feeds.Wait()
}

// waitStarts waits for a caller that holds mu and may still add to feeds: it looked at the context
// before the context's end. Later callers add nothing.
func (s *Resources) waitStarts() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

func (s *Resources) begin(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.running = ctx
	for _, f := range s.mu.byKey {
		if current := f.run.Load(); current != nil {
			s.runLocked(current)
		}
	}
}

// allResources returns all resources that have a backend, followed or not, in no order.
func (s *Resources) allResources() []*FollowedResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.mu.byKey))
}

// All implements source.Source.
func (s *Resources) All() []*source.Backend {
	var all []*source.Backend
	for _, f := range s.allResources() {
		if f.currentFeed() != nil {
			all = append(all, &f.backend)
		}
	}
	return all
}

// Depth implements source.Source.
func (s *Resources) Depth() int {
	depth := 1
	for _, f := range s.allResources() {
		if feed := f.currentFeed(); feed != nil {
			depth = max(depth, feed.Depth())
		}
	}
	return depth
}

// WaitLoaded implements source.Source. It does not wait for resources that fail to load and
// are Optional, refused or given up. Their reads are passed on.
func (s *Resources) WaitLoaded(ctx context.Context) error {
	for _, f := range s.allResources() {
		if current := f.run.Load(); current != nil {
			if err := f.waitLoaded(ctx, current, f.request.Optional); err != nil {
				return err
			}
		}
	}
	return nil
}

// Healthy implements source.Source. It returns nil if one feed is healthy, or there are no
// feeds: a single feed may fail for lack of a right.
func (s *Resources) Healthy() (err error) {
	for _, f := range s.allResources() {
		if f.currentFeed() == nil {
			continue
		}
		if err = f.Healthy(); err == nil {
			return nil
		}
	}
	return err
}

// RunScrubbers implements source.Source. Nothing is checked: an API has no digest to compare with.
func (s *Resources) RunScrubbers(ctx context.Context) { <-ctx.Done() }

// CacheReadyError implements source.Source.
func (s *Resources) CacheReadyError() error { return nil }

// BrokenSince implements source.Source, for the first broken feed of the two forms of a resource.
func (s *Resources) BrokenSince(stored schema.GroupResource) time.Time {
	for _, inProtobuf := range []bool{false, true} {
		if f := s.lookup(Key{stored, inProtobuf}); f != nil {
			if since := f.BrokenSince(); !since.IsZero() {
				return since
			}
		}
	}
	return time.Time{}
}

// Close implements source.Source.
func (s *Resources) Close() {}
