package apifeed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/feed"
)

// Config configures Feed.
type Config struct {
	// Client sends requests with credentials that may list and watch the resource.
	Client *http.Client
	// URL is the collection of all objects of the resource in one version.
	URL string
	// Protobuf asks for protobuf instead of JSON. It must not be set for custom resources,
	// which have no protobuf.
	Protobuf bool
	// Verbatim says that objects are sent on as they come. The feed then also keeps what the
	// server sends around them (Feed.Surroundings).
	Verbatim bool
	// Namespaced says that the resource has namespaces. Only Verbatim needs it.
	Namespaced bool
	// Prefix begins the keys that the sink gets. It ends with a slash.
	Prefix string
	// Sink receives objects and events.
	Sink feed.Sink
	// Checkpoint finds what was kept of the resource. The first load takes it if it can be
	// used. It returns nil if nothing was kept. Nil means that nothing is ever kept.
	Checkpoint func() (feed.Checkpoint, error)
	// Sibling is another replica in front of the same server. Only the first load takes its
	// objects, if the server confirms the newest of them and their number. Nil means that
	// there is none.
	Sibling *Sibling
	// Uncompressed asks for answers that are not compressed. It is for secrets: their length
	// would tell what they have in common with the text of others.
	Uncompressed bool
	// LoadSemaphore is shared by feeds, and has as many slots as feeds may load at a time. Nil
	// means that the feed loads immediately.
	LoadSemaphore chan struct{}
	// WentBack is called when the server seems to have another history of this resource. It
	// reports whether all resources have another history, which ends the feed. Otherwise the
	// resource is loaded again. Nil stands for true. See WentBackWith.
	WentBack func(context.Context) (bool, error)
	// Logger receives loads and breaks. Nil means slog.Default.
	Logger *slog.Logger
}

// Feed follows one resource with a single long watch. It begins with all objects (KEP-3157),
// or after a list in pages where the server has no such watches. When it ends, the next one
// resumes there. While readers of a resource that does not change wait for a proof, a short
// second watch runs beside it.
//
//	  ┌───── 410, sent otherwise, or another history of this resource alone ─────┐
//	  ▼                                                                          │
//	load ──all objects──► follow ──ended, broken, or stands still──► confirm ────┤
//	  ▲  │                  ▲                                           │        │
//	  └──┘ error, back off  └───────── from the applied revision ───────┘        │
//	                                                                             ▼
//	                 another history of all resources: feed.ErrWentBack ◄── Config.WentBack
//
// A checkpoint or a sibling's objects may take the place of the first load. When a watch has
// ended before its time, the feed first confirms that the server has the history that the sink
// has. If the server has another history, Config.WentBack tells whether all resources have
// another history, which ends the feed. The history of one resource alone changes when another
// server answers for it: a definition's group version may be given to an aggregated server.
//
// A server that refuses the feed (RefusalStatus) is asked seldom. The feed then is not
// healthy, and its objects stay as they are.
type Feed struct {
	cfg    Config
	codec  codec
	health feed.Health
	// applied is the revision up to which the sink has everything. It is 0 before the first
	// load.
	applied atomic.Int64
	// errOtherHistory is the error of a server with another history: feed.ErrDoubt if
	// Config.WentBack can tell of which resources, and otherwise feed.ErrWentBack.
	errOtherHistory error
	// attempts are what Run does, one at a time.
	attempts attempts
	// retry and hurry end a pause of Run, hurry not before its least time.
	retry, hurry chan struct{}
	// refusal is nil unless the server refuses the feed.
	refusal atomic.Pointer[refusal]
	// bookmarked says that the server has sent a bookmark, other than at the end of a load.
	bookmarked atomic.Bool
	// tried is closed when the first load has succeeded or failed.
	tried chan struct{}
	// heardAt is when the server last began a watch, or sent an event or a bookmark on it.
	heardAt atomic.Pointer[time.Time]
	// depth is the number of replicas that an event has passed when the sink gets it, this one
	// included. It is 0 before the first watch.
	depth atomic.Int64
	// interval is ProgressWithin, in nanoseconds.
	interval atomic.Int64
	// surroundings is what learn has read last. It is nil before that.
	surroundings atomic.Pointer[Surroundings]
	// requests has the requests for progress.
	requests progressRequests
	// applying is held while the sink gets an event or progress.
	applying sync.Mutex

	// confirmed says that the server has the history that the sink has. Only Run's goroutine
	// sets it.
	confirmed confirmation

	// Only Run's goroutine uses the fields below.

	// loaded says that the sink has all objects.
	loaded bool
	// loadedAt is the time of the last load from the server or a sibling.
	loadedAt time.Time
	// listsOnly says that the server has no watches that begin with all objects in order.
	listsOnly bool
	// checkpointTried says that the checkpoint was loaded or cannot be used.
	checkpointTried bool
	// siblingTried says that no load asks the sibling from now on.
	siblingTried bool
	// witness is what the sink got last.
	witness feed.Witness
	// abandonedConn is the connection of a watch that stood still, which the next watch does not
	// use. It is nil if there is none.
	abandonedConn net.Conn
	// loggedState is the state that noteBreak has logged last. It is nil while the feed follows.
	loggedState error
	// bookmarkRead says that surroundings.Bookmark is as the server has sent it.
	bookmarkRead bool
}

// New makes a feed. It does nothing before Run.
func New(cfg Config) *Feed {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	f := &Feed{cfg: cfg, codec: jsonCodec{}, errOtherHistory: feed.ErrDoubt, tried: make(chan struct{}), retry: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
	f.requests.wanted = make(chan struct{}, 1)
	if cfg.WentBack == nil {
		f.errOtherHistory = feed.ErrWentBack
	}
	if cfg.Protobuf {
		f.codec = protobufCodec{}
	}
	return f
}

// follow loads the resource unless it is loaded, and follows one watch to its end. onLoaded
// is called when the sink has all objects.
func (f *Feed) follow(ctx context.Context, onLoaded func()) error {
	if f.loaded {
		onLoaded()
		err := f.confirm(ctx)
		if err == nil {
			return f.watch(ctx, nil)
		}
		if !errors.Is(err, errUnasked) {
			return err
		}
		f.cfg.Logger.Warn("Feed loads again from the API server; its clients have to list again", "url", f.cfg.URL, "reason", err)
		f.loaded = false
	}
	release, err := f.loadSlot(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := f.resumeKept(ctx); err != nil {
		return err
	}
	if !f.loaded && !f.listsOnly {
		err := f.watch(ctx, &initialEvents{done: func() { f.setLoaded(); onLoaded(); release() }})
		if !errors.Is(err, errNoWatchList) && !errors.Is(err, errNoOrder) {
			return err
		}
		f.cfg.Logger.Info("Feed loads pages", "url", f.cfg.URL, "reason", err)
		f.listsOnly = true
	}
	if !f.loaded {
		if err := f.loadPages(ctx); err != nil {
			return err
		}
		f.setLoaded()
	}
	onLoaded()
	release()
	return f.watch(ctx, nil)
}

// resumeKept loads a checkpoint or a sibling's objects, once and where there are any.
func (f *Feed) resumeKept(ctx context.Context) error {
	if f.cfg.Checkpoint != nil && !f.checkpointTried {
		err := f.resume(ctx)
		if err != nil && !errors.Is(err, feed.ErrUnusable) {
			return err
		}
		if f.checkpointTried = true; err != nil {
			f.cfg.Logger.Warn("Checkpoint is not used, and objects are loaded from the API server", "url", f.cfg.URL, "reason", err)
		}
	}
	return f.trySibling(ctx)
}

// setLoaded records that the sink has all objects.
func (f *Feed) setLoaded() { f.loaded, f.loadedAt = true, time.Now() }

// endLoad ends a load of objects whose history the server has. Reads need not wait for a
// confirmation.
func (f *Feed) endLoad(ctx context.Context, loader feed.Loader, revision int64) {
	f.confirmed.set(true)
	loader.End(ctx, revision)
}

// Tried returns a channel that is closed when the first load has succeeded or failed.
func (f *Feed) Tried() <-chan struct{} { return f.tried }

// Healthy returns nil while the feed follows, and otherwise the reason why it does not.
func (f *Feed) Healthy() error {
	if f.health.Following() {
		return nil
	}
	if err := f.health.Err(); err != nil {
		return fmt.Errorf("feed from %s is broken: %w", f.cfg.URL, err)
	}
	return fmt.Errorf("feed from %s has not loaded yet", f.cfg.URL)
}

// BrokenSince returns when the feed ceased to follow, as feed.Health.BrokenSince does.
func (f *Feed) BrokenSince() time.Time { return f.health.BrokenSince() }

// HeardAt returns when the server last began a watch, or sent an event or a bookmark on it. It
// returns zero before the first watch.
func (f *Feed) HeardAt() time.Time {
	if at := f.heardAt.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Depth returns how many replicas an event has passed when the sink gets it, this one
// included. It returns 0 before the first watch.
func (f *Feed) Depth() int { return int(f.depth.Load()) }

func (f *Feed) setHeard() {
	now := time.Now()
	f.heardAt.Store(&now)
}

// setApplied records the revision of a load. It fails if that is older than what the sink
// has.
func (f *Feed) setApplied(revision int64) error {
	if before := f.applied.Load(); revision < before {
		return f.isBehind(before, revision)
	}
	f.applied.Store(revision)
	return nil
}

// object is one version of one object as the server sent it.
type object struct {
	namespace, name string
	revision        int64
	// value is the object in a stored form. It belongs to the object.
	value []byte
	// hasKind says that the server sent the object with its kind. Only JSON sets it.
	hasKind bool
	// endsInitial says that the object is the bookmark after all initial events.
	endsInitial bool
}

// key returns the object's key in etcd.
func (f *Feed) key(o *object) []byte {
	key := f.cfg.Prefix
	if o.namespace != "" {
		key += o.namespace + "/"
	}
	return []byte(key + o.name)
}

// present returns the object as the sink gets it.
func (f *Feed) present(o *object) feed.Object {
	return feed.Object{Key: f.key(o), Value: o.value, Revision: o.revision}
}

// deletion returns the event that deleted an object.
func (f *Feed) deletion(o *object) feed.Object {
	return feed.Object{Key: f.key(o), Revision: o.revision, Deleted: true}
}
