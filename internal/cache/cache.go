package cache

import (
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/encode"
)

// ErrNotReady says that the first load from etcd is not finished.
var ErrNotReady = errors.New("cache not loaded yet")

// Config of a Cache. The zero value of each field has the meaning given there.
type Config struct {
	// Budget bounds wire bytes. Nil keeps none.
	Budget *encode.Budget
	// HistoryWindow is how long events are kept. Zero means 5 minutes.
	HistoryWindow time.Duration
	// HistoryEvents is how many of a resource's last events are kept however old they
	// are. Zero means 100.
	HistoryEvents int
	// HistoryBytes bounds one resource's events. Zero means 64 MiB. An eighth of it
	// bounds the old events of all resources.
	HistoryBytes int64
	// LeafObjects is how many neighbours are encoded and compressed together at
	// most. Zero means 48.
	LeafObjects int
	// IndexMinScan is the size of a scan that teaches a resource an index. Zero means
	// 512.
	IndexMinScan int
	// Logger receives entries that cannot be read. Nil means slog.Default.
	Logger *slog.Logger
	// Clock is for tests. Nil means the real one.
	Clock clock.PassiveClock
	// Workers decode in parallel. Zero means GOMAXPROCS.
	Workers int
}

// Cache holds all resources under one etcd prefix. It is a store.Sink.
type Cache struct {
	cfg      Config
	bounds   *bounds
	progress Progress
	loaded   atomic.Bool

	// writing is held by whoever changes states: the feed, or a registration
	// that adopts what the feed had read before. It is taken before mu.
	writing sync.Mutex
	// The rest of this block is guarded by writing.

	// unclaimed holds what belongs to no registered resource, under whole keys.
	unclaimed *Resource
	// released is up to when the events of a prefix are not in the unclaimed log,
	// because the prefix was registered before.
	released map[string]release
	// applied is the revision up to which the states hold everything, and newest
	// the one that they have to reach before Progress tells of the first load.
	applied, newest int64
	// received is when the events came that are applied next, zero if nobody said it.
	received time.Time

	mu struct {
		sync.RWMutex
		resources map[string]*Resource
	}
}

// release is when a resource was let go.
type release struct {
	revision int64
	at       time.Time
}

// New makes an empty cache. A feed fills it.
func New(cfg Config) *Cache {
	if cfg.HistoryWindow == 0 {
		cfg.HistoryWindow = 5 * time.Minute
	}
	if cfg.HistoryEvents == 0 {
		cfg.HistoryEvents = 100
	}
	if cfg.HistoryBytes == 0 {
		cfg.HistoryBytes = 64 << 20
	}
	if cfg.LeafObjects == 0 {
		cfg.LeafObjects = maxLeaf
	}
	if cfg.IndexMinScan == 0 {
		cfg.IndexMinScan = minScan
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Workers == 0 {
		cfg.Workers = runtime.GOMAXPROCS(0)
	}
	c := &Cache{cfg: cfg, bounds: newBounds(&cfg), released: map[string]release{}}
	c.mu.resources = map[string]*Resource{}
	c.unclaimed = c.newResource(Spec{}, 0)
	return c
}

// newResource makes a resource whose log is complete from a revision on.
func (c *Cache) newResource(spec Spec, since int64) *Resource {
	r := &Resource{spec: spec, progress: &c.progress, writing: &c.writing, logger: c.cfg.Logger}
	r.log = c.newLog(since)
	r.state.Store(&state{})
	if spec.Describe != nil {
		r.learning = &learning{clock: c.cfg.Clock, from: c.cfg.IndexMinScan, build: r.learnIndex}
	}
	return r
}

func (c *Cache) newLog(since int64) *Log {
	return newLog(c.bounds, since, c.cfg.Clock)
}

// Progress is how far the cache has followed etcd.
func (c *Cache) Progress() *Progress { return &c.progress }

// Ready returns ErrNotReady until the first load is finished and as new as etcd
// was when it began.
func (c *Cache) Ready() error {
	if !c.loaded.Load() {
		return ErrNotReady
	}
	return nil
}

// Register adds a resource, or returns the one that already has the prefix: the
// API versions of a kind share what is stored. Objects and events that the feed
// has read before are in it when Register returns. Each call needs one Release.
func (c *Cache) Register(spec Spec) *Resource {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.RLock()
	r := c.mu.resources[spec.Prefix]
	c.mu.RUnlock()
	if r == nil {
		r = c.adopt(spec)
		c.mu.Lock()
		c.mu.resources[spec.Prefix] = r
		c.mu.Unlock()
	}
	r.refs++
	return r
}

// Retain registers a resource that is registered once more.
func (c *Cache) Retain(r *Resource) {
	c.writing.Lock()
	defer c.writing.Unlock()
	r.refs++
}

// Release ends a registration. A resource without any keeps following etcd, for
// a custom one is registered anew whenever its definition changes; it goes when
// it is empty.
func (c *Cache) Release(r *Resource) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if r.refs--; r.refs > 0 || r.Snapshot().Len() > 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.resources, r.spec.Prefix)
	c.released[r.spec.Prefix] = release{c.applied, c.cfg.Clock.Now()}
}

// Resources returns what is registered, in no order.
func (c *Cache) Resources() []*Resource {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.mu.resources))
}

// lookup returns the resource that a key belongs to: that of the longest
// registered prefix.
func (c *Cache) lookup(key string) *Resource {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for end := strings.LastIndexByte(key, '/'); end > 0; end = strings.LastIndexByte(key[:end], '/') {
		if r := c.mu.resources[key[:end+1]]; r != nil {
			return r
		}
	}
	return c.unclaimed
}
