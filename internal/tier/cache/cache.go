package cache

import (
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/wire/encode"
)

// ErrNotReady says that the cache is not loaded. See Cache.Ready.
var ErrNotReady = errors.New("cache not loaded yet")

// ErrUnproven says that the cache could not be shown in time to be as new as a read asks.
var ErrUnproven = errors.New("cache not proven new enough")

// Config configures Cache. The zero value of each field has the meaning given there.
type Config struct {
	// Budget bounds wire bytes, which leaves keep. Nil keeps none.
	Budget *encode.Budget
	// HistoryWindow is how long events are kept. Zero means 5 minutes.
	HistoryWindow time.Duration
	// HistoryEvents is the number of a resource's last events that may stay after
	// HistoryWindow. Zero means 100.
	HistoryEvents int
	// HistoryBytes bounds one resource's events. Zero means 64 MiB. An eighth of it
	// bounds the old events of all resources.
	HistoryBytes int64
	// LeafObjects is the largest number of entries in a leaf, which are encoded and
	// compressed together. Zero means 48.
	LeafObjects int
	// IndexMinScan is the least number of entries that a scan must visit to count as
	// demand for an index. Zero means 512.
	IndexMinScan int
	// Logger receives unreadable entries, indexes that are built and dropped, and resources
	// that cannot be packed. Nil means slog.Default.
	Logger *slog.Logger
	// Panics guards what decrypts and describes entries. Nil guards too, and counts nothing.
	Panics *panics.Counter
	// Clock is for tests. Nil means the real clock.
	Clock clock.PassiveClock
	// Workers is the largest number of goroutines that decode or pack a batch. Zero means
	// GOMAXPROCS.
	Workers int
}

// Cache holds all resources under one etcd prefix. It is a feed.Sink.
//
// All resources share one feed, so that a single revision says how fresh every one of
// them is. The price is one writer. A batch of events is decoded by several goroutines,
// but the batches of all resources are applied one after the other, under the lock write.
//
// Readers take that lock only to add an index or to mark an entry. Each resource publishes
// an immutable state through an atomic pointer, so a long LIST delays neither the feed nor
// other reads.
//
// Keys that belong to no registered resource are kept undecoded in the resource
// unclaimed. A custom resource is registered only after its definition has been read
// from this same cache. It then takes its objects and its events from unclaimed.
//
// Methods of Cache, Resource and load with the suffix Locked need write. Lock order: write,
// then mu or the lock of one Log, then locks of the log's follower.
type Cache struct {
	cfg      Config
	bounds   *bounds
	progress Progress
	aged     agedRevisions
	loaded   atomic.Bool
	// unclaimed holds the keys of no registered resource, under their whole names. Its
	// log is replaced under write.
	unclaimed *Resource

	// write is the lock of writers: the feed, a registration, a Reload, a reader that adds
	// an index or marks an entry. Contents and digests need it too, for they are of all
	// resources at one revision.
	write struct {
		sync.Mutex
		// released has, by prefix, the resources that were released. Until its revision,
		// the events of such a prefix went to the resource's own log and are not in the
		// unclaimed one.
		released map[string]release
		// applied is the revision up to which all states are complete. It is 0 before the
		// first load, and again after Suspend and Unload.
		applied int64
		// newestAtLoad is load.newest of the last load. A cache that is not loaded becomes
		// so, and Progress leaves 0, once applied has reached it.
		newestAtLoad int64
		// loading says that a load has begun and not ended.
		loading bool
		// loadedAt is the revision of the last load.
		loadedAt int64
		// unchanged has, by prefix, the revision since which nothing had changed at the
		// last load. It is for resources that are registered later.
		unchanged map[string]int64
		// received is the time at which the next batch of events arrived. Zero means
		// that the time is unknown.
		received time.Time
	}

	// mu guards the registered resources, by prefix. They change only while write is
	// held too.
	mu struct {
		sync.RWMutex
		resources map[string]*Resource
		// prefixes are the keys of resources in their order. They are nil until they are
		// asked for.
		prefixes []string
	}
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
		cfg.LeafObjects = maxLeafEntries
	}
	if cfg.IndexMinScan == 0 {
		cfg.IndexMinScan = defaultIndexMinScan
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
	c := &Cache{cfg: cfg, bounds: newBounds(&cfg)}
	c.write.released = map[string]release{}
	c.mu.resources = map[string]*Resource{}
	c.unclaimed = c.newResource(Spec{}, 0)
	return c
}

// newResource makes an empty resource. Its log is complete after the revision completeAfter.
func (c *Cache) newResource(spec Spec, completeAfter int64) *Resource {
	r := &Resource{spec: spec, cfg: &c.cfg, progress: &c.progress, write: &c.write.Mutex}
	r.log = c.newLog(completeAfter)
	r.state.Store(&state{})
	if spec.Describe != nil {
		r.advisor = &indexAdvisor{clock: c.cfg.Clock, minEntries: c.cfg.IndexMinScan, build: r.buildIndex}
	}
	return r
}

func (c *Cache) newLog(completeAfter int64) *Log {
	return newLog(c.bounds, completeAfter, c.cfg.Clock)
}

// Panics returns Config.Panics, for foreign code that reads the cache's objects.
func (c *Cache) Panics() *panics.Counter { return c.cfg.Panics }

// Progress says how far the cache has followed etcd.
func (c *Cache) Progress() *Progress { return &c.progress }

// Ready returns ErrNotReady until the first load has ended and all events that etcd had when
// the load began are applied. After Suspend and Unload it does so until the next load.
func (c *Cache) Ready() error {
	if !c.loaded.Load() {
		return ErrNotReady
	}
	return nil
}
