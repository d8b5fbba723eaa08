package slo

import (
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// Config configures Watches.
type Config struct {
	// Objectives are the times that spans may take. The zero value is one second for all
	// resources.
	Objectives Objectives
	// Clients and Subscriptions bound the accounts of clients and of subscriptions. Zero
	// is 1,000. All clients beyond the bound share an additional account, and so do the
	// subscriptions of each resource.
	Clients, Subscriptions int
	// SlowAfter is the lag from which a watch is logged. Zero means 10 s.
	SlowAfter time.Duration
	// Logger receives slow watches, watches whose clients have to list again, and late feeds.
	// Nil means slog.Default.
	Logger *slog.Logger
	// Clock is for tests. Nil means the real clock.
	Clock clock.WithTicker
}

func (c Config) withDefaults() Config {
	if c.Clients == 0 {
		c.Clients = 1000
	}
	if c.Subscriptions == 0 {
		c.Subscriptions = 1000
	}
	if c.SlowAfter == 0 {
		c.SlowAfter = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return c
}

// Watches is the set of the accounts of all watches: of each watch, and of resources,
// clients and subscriptions. It also has the accounts of feeds, of the probe, and of
// the process. One server has one set.
//
//	SendAccount ─┬► writeEvents ─Written─► resourceAccount ─┬─► spans of the resource
//	SendAccount ─┘                         (batch)          └─► deliveryBuffer ─┬─► client
//	                                                                            └─► subscription
//	Watch.AddWithoutSpan ─► resourceAccount, client and subscription
//
// The design keeps measuring cheaper than what it measures. An event of the log is recorded when
// its write has returned. As a rule it is recorded once for all watches of a client that have the
// same subscription (writeEvents). Accounts count what is recorded later, in batches, because loading
// accounts into the processor's caches costs more than counting. Reports count what is pending,
// so they miss nothing.
//
// Memory does not grow with the number of events. Sums since the start are counters.
// Times of the last minute are sketches in a ring of slots, so an account's size
// depends on how much its times differ. docs/slo.md has figures.
//
// Lock order: mu, resourceAccount.mu, deliveryBuffer.mu, the accounts of clients and
// subscriptions. All methods may be called by any goroutine. A nil *Watches counts nothing: Open
// and AddFeed return nil accounts, and PassOn works. No other method of it may be called.
type Watches struct {
	cfg       Config
	startedAt time.Time
	feeds     feeds
	// process is filled by Run. Without Run its times are empty.
	process process
	probe   probeAccount
	// logThrottle bounds the log lines of slow watches, late feeds and expired watches.
	logThrottle logThrottle

	mu struct {
		sync.Mutex
		lastID        uint64
		watches       map[uint64]*Watch
		resources     map[string]*resourceAccount
		clients       map[serverreport.Client]*clientAccount
		subscriptions map[subscriptionKey]*subscriptionAccount
		buffers       map[bufferKey]*deliveryBuffer
		// passedOn counts the open watches that are passed on.
		passedOn map[passedOnKey]int
		// nextClientDrop and nextSubscriptionDrop are when dropOldLocked may search
		// again.
		nextClientDrop, nextSubscriptionDrop time.Time
		// forgottenSums are of the resources that Forget dropped.
		forgottenSums deliveredSums
	}
}

// NewWatches makes an empty set. It starts nothing.
func NewWatches(cfg Config) *Watches {
	cfg = cfg.withDefaults()
	set := &Watches{cfg: cfg, startedAt: cfg.Clock.Now()}
	set.mu.watches = map[uint64]*Watch{}
	set.mu.resources = map[string]*resourceAccount{}
	set.mu.clients = map[serverreport.Client]*clientAccount{}
	set.mu.subscriptions = map[subscriptionKey]*subscriptionAccount{}
	set.mu.buffers = map[bufferKey]*deliveryBuffer{}
	set.mu.passedOn = map[passedOnKey]int{}
	return set
}

// offset returns the time since startedAt.
func (set *Watches) offset() time.Duration { return set.cfg.Clock.Since(set.startedAt) }

// Open begins the account of a watch. The caller closes it. A nil set returns a nil
// Watch, whose methods do nothing.
func (set *Watches) Open(info WatchInfo) *Watch {
	if set == nil {
		return nil
	}
	now := set.cfg.Clock.Now()
	w := &Watch{WatchInfo: info, set: set, openedOffset: now.Sub(set.startedAt)}
	set.mu.Lock()
	defer set.mu.Unlock()
	set.mu.lastID++
	w.id = set.mu.lastID
	set.mu.watches[w.id] = w
	w.resource = set.resourceLocked(info.Resource)
	w.resource.setHistory(info.History)
	w.buffer = set.joinBufferLocked(set.clientLocked(info.Client), set.subscriptionLocked(w.resource, info.Selection))
	return w
}
