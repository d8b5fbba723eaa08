package slo

import (
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/report"
)

// Config of Watches. The zero value of each field has the meaning given there.
type Config struct {
	// Objectives say how long spans may be. The zero value is a second for all.
	Objectives Objectives
	// Clients bounds how many clients have an account of their own, and
	// Subscriptions how many of these. Zero is 1,000. Others share one.
	Clients, Subscriptions int
	// SlowAfter is how far a watch may be behind before it is logged. Zero is 10 s.
	SlowAfter time.Duration
	// Logger receives slow watches, watches that have to list again, and feeds that are
	// late. Nil means slog.Default.
	Logger *slog.Logger
	// Clock is for tests. Nil means the real one.
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

// Watches keeps the accounts of all watches: of each, and of their resources,
// clients and subscriptions.
//
// An event is counted when the write has returned that handed it to its connection:
// once for all watches of one client that the write carried it for, and with what other
// writes delivered, so that what counting needs is fetched into the processor's caches
// rarely. What is told of all is added up when it is asked for. Sums over long times are
// counters, times of the last minute sketches in a ring of slots that are used again.
// So what an account takes depends on how different its times are, and not on how many
// there are (docs/slo.md has the figures).
type Watches struct {
	cfg   Config
	began time.Time
	feeds feeds
	// process may have no times: only Run takes them.
	process process
	probe   probe
	logs    limiter

	mu struct {
		sync.Mutex
		newest        uint64
		watches       map[uint64]*Watch
		resources     map[string]*resourceAccount
		clients       map[report.Client]*clientAccount
		subscriptions map[subscriptionKey]*subscriptionAccount
		peers         map[peersKey]*peers
		// clientsAgain and subscriptionsAgain are when it is worth looking for some to
		// drop again.
		clientsAgain, subscriptionsAgain time.Time
	}
}

// dropAgain is how long nothing is looked for after there was nothing to drop: thousands of
// watches that are opened together would each look at all accounts.
const dropAgain = time.Second

type subscriptionKey struct{ resource, selection string }

// NewWatches makes accounts that are empty. It starts nothing.
func NewWatches(cfg Config) *Watches {
	cfg = cfg.withDefaults()
	x := &Watches{cfg: cfg, began: cfg.Clock.Now()}
	x.mu.watches = map[uint64]*Watch{}
	x.mu.resources = map[string]*resourceAccount{}
	x.mu.clients = map[report.Client]*clientAccount{}
	x.mu.subscriptions = map[subscriptionKey]*subscriptionAccount{}
	x.mu.peers = map[peersKey]*peers{}
	return x
}

// since is how long ago time began.
func (x *Watches) since() time.Duration { return x.cfg.Clock.Since(x.began) }

// Open begins the account of a watch. A nil set keeps none.
func (x *Watches) Open(info WatchInfo) *Watch {
	if x == nil {
		return nil
	}
	now := x.cfg.Clock.Now()
	w := &Watch{WatchInfo: info, set: x, began: now.Sub(x.began)}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.newest++
	w.id = x.mu.newest
	x.mu.watches[w.id] = w
	w.resource = x.resourceLocked(info.Resource)
	w.resource.history = info.History
	w.peers = x.peersLocked(x.clientLocked(info.Client), x.subscriptionLocked(w.resource, info.Selection))
	return w
}

func (x *Watches) resourceLocked(name string) *resourceAccount {
	r := x.mu.resources[name]
	if r == nil {
		r = &resourceAccount{set: x, name: name, objective: x.cfg.Objectives.of(name)}
		x.mu.resources[name] = r
	}
	return r
}

// clientLocked returns the account of a client, or the one of all others.
func (x *Watches) clientLocked(c report.Client) *clientAccount {
	if known := x.mu.clients[c]; known != nil {
		return known
	}
	everyone := report.Client{UserAgent: other}
	if len(x.mu.clients) >= x.cfg.Clients && !x.dropLocked(&x.mu.clientsAgain, x.dropClientsLocked) {
		c = everyone
	}
	known := x.mu.clients[c]
	if known == nil {
		known = &clientAccount{Client: c}
		x.mu.clients[c] = known
	}
	return known
}

// dropLocked drops what has had no watch for a minute, and reports whether there was some.
// If not, it looks again after dropAgain.
func (x *Watches) dropLocked(again *time.Time, drop func(old time.Time) bool) bool {
	now := x.cfg.Clock.Now()
	if now.Before(*again) {
		return false
	}
	if drop(now.Add(-minute)) {
		return true
	}
	*again = now.Add(dropAgain)
	return false
}

// dropClientsLocked drops clients that have had no watch since then. What they were
// sent is others' from then on, so that sums stay.
func (x *Watches) dropClientsLocked(old time.Time) bool {
	dropped := false
	for id, c := range x.mu.clients {
		if c.UserAgent == other && c.User == "" || c.watches > 0 || c.used.After(old) {
			continue
		}
		delete(x.mu.clients, id)
		dropped = true
		rest := x.mu.clients[report.Client{UserAgent: other}]
		if rest == nil {
			rest = &clientAccount{Client: report.Client{UserAgent: other}}
			x.mu.clients[rest.Client] = rest
		}
		c.mu.Lock()
		events, bytes := c.events, c.bytes
		c.mu.Unlock()
		rest.add(events, bytes)
	}
	return dropped
}

// subscriptionLocked returns the account of a selection, or the one of all others of
// the resource.
func (x *Watches) subscriptionLocked(r *resourceAccount, selection string) *subscriptionAccount {
	key := subscriptionKey{r.name, selection}
	if known := x.mu.subscriptions[key]; known != nil {
		return known
	}
	if len(x.mu.subscriptions) >= x.cfg.Subscriptions && !x.dropLocked(&x.mu.subscriptionsAgain, x.dropSubscriptionsLocked) {
		key.selection = other
	}
	known := x.mu.subscriptions[key]
	if known == nil {
		known = &subscriptionAccount{selection: key.selection, resource: r}
		x.mu.subscriptions[key] = known
	}
	return known
}

func (x *Watches) dropSubscriptionsLocked(old time.Time) bool {
	dropped := false
	for id, s := range x.mu.subscriptions {
		if s.watches == 0 && !s.used.After(old) {
			delete(x.mu.subscriptions, id)
			dropped = true
		}
	}
	return dropped
}

// Forget drops the accounts of resources that are gone, with what metrics tell of them,
// but for those that are watched. Clients keep what they were sent. An account holds its
// resource's log.
func (x *Watches) Forget(gone func(resource string) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	watched := map[*resourceAccount]bool{}
	for key, s := range x.mu.subscriptions {
		switch {
		case s.watches > 0:
			watched[s.resource] = true
		case gone(key.resource):
			delete(x.mu.subscriptions, key)
		}
	}
	for name, r := range x.mu.resources {
		if !watched[r] && gone(name) {
			delete(x.mu.resources, name)
		}
	}
}
