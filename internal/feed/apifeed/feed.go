package apifeed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/feed"
)

var (
	// errExpired says that the server no longer has the events behind a revision.
	errExpired = errors.New("the API server no longer has the changes")
	// errSentOtherwise says that the server sends an object at the same revision with other
	// bytes: its version, a feature gate or the schema of the resource has changed.
	errSentOtherwise = errors.New("the API server sends the same object otherwise")
)

// Config of a Feed.
type Config struct {
	// Client sends requests with credentials that may list and watch the resource.
	Client *http.Client
	// URL is the collection of all objects of the resource in one version.
	URL string
	// Protobuf asks for protobuf, which only built-in kinds have. Others come as JSON.
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
	// used. It returns nil if nothing was kept. Nil means that nothing ever is.
	Checkpoint func() (feed.Checkpoint, error)
	// Sibling is another replica in front of the same server. Only the first load takes its
	// objects, if the server confirms the newest of them. Nil means that there is none.
	Sibling *Sibling
	// Logger receives loads and breaks. Nil means slog.Default.
	Logger *slog.Logger
}

// Feed follows one resource with a single watch, and a short second one while readers of a
// resource that does not change wait for a proof. The watch begins with all objects
// (KEP-3157), or behind a list in pages where the server has no such watches. When it
// ends, the next one resumes where it ended.
//
//	  ┌──────────────── 410, or sent otherwise ──────────────┐
//	  ▼                                                      │
//	load ──all objects──► follow ──ended──► follow from the last revision
//	  ▲  │
//	  └──┘ error, back off
//
// A checkpoint or a sibling's objects may take the place of the first load. When a watch has
// ended before its time, the feed first confirms that the server has the history that the sink
// has, and ends if it has another one.
type Feed struct {
	cfg    Config
	codec  codec
	health feed.Health
	// applied is the revision up to which the sink has everything, 0 before the first load.
	applied atomic.Int64
	// failed has the error that ends Run.
	failed chan error
	// tried is closed when the first load has succeeded or failed.
	tried chan struct{}
	// heardAt is when the watch last told something: that it has begun, an event or a
	// bookmark.
	heardAt atomic.Pointer[time.Time]
	// depth is how many replicas events have come through at this side of the watch, 0 before
	// the first one.
	depth atomic.Int64
	// surroundings is nil before learn.
	surroundings atomic.Pointer[Surroundings]
	// requests are those for progress. applying is held while the sink gets an event or a
	// bookmark.
	requests progressRequests
	applying sync.Mutex

	// confirmed says that the server has the history that the sink has. Only Run's goroutine
	// sets it.
	confirmed atomic.Bool

	// Only Run's goroutine uses the fields below.

	// loaded says that the sink has all objects.
	loaded bool
	// loadedAt is the time of the last load.
	loadedAt time.Time
	// listsOnly says that the server has no watches that begin with all objects in order.
	listsOnly bool
	// checkpointTried says that the checkpoint was loaded or cannot be used.
	checkpointTried bool
	// siblingTried says that no load asks the sibling from now on.
	siblingTried bool
	// witness is the newest object that the sink has, nil if it is not known.
	witness *feed.Object
	// bookmarkRead says that the surroundings have a bookmark as it was sent.
	bookmarkRead bool
}

// The longest pause bounds how late changes are after the server was away. Feeds wait for
// random times, so that those of all resources do not come back together.
const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 10 * time.Second
)

// New makes a feed. It does nothing before Run.
func New(cfg Config) *Feed {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	f := &Feed{cfg: cfg, codec: jsonCodec{}, failed: make(chan error, 1), tried: make(chan struct{})}
	f.requests.wanted = make(chan struct{}, 1)
	if cfg.Protobuf {
		f.codec = protobufCodec{}
	}
	return f
}

// Run follows the resource until the context ends, and returns the context's error. After
// errors it retries for as long as it takes, unless the error is feed.ErrWentBack. It may
// be called once.
func (f *Feed) Run(ctx context.Context) error {
	return feed.RunUntil(ctx, f.failed, &f.health, f.run)
}

func (f *Feed) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var answers sync.WaitGroup
	defer answers.Wait()
	defer cancel()
	answers.Go(func() { f.answerRequests(ctx) })
	tried := sync.OnceFunc(func() { close(f.tried) })
	defer tried()
	for backoff := minBackoff; ; {
		began := time.Now()
		err := f.learn(ctx)
		if err == nil {
			err = f.follow(ctx, tried)
		}
		tried()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, feed.ErrWentBack) {
			return err
		}
		if time.Since(began) > maxBackoff || needsLoad(err) && time.Since(f.loadedAt) > maxBackoff {
			backoff = minBackoff
		}
		// A server that ends a watch early may be going, and another one come in its place.
		f.confirmed.Store(f.confirmed.Load() && err == nil && time.Since(began) > watchTimeout/2)
		if err != nil {
			f.noteBreak(err, backoff)
		} else if time.Since(began) > backoff {
			continue // the server ended the watch in its time
		}
		select {
		case <-time.After(backoff/2 + rand.N(backoff)):
		case <-ctx.Done():
			return ctx.Err()
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// noteBreak notes an error of follow. After most of them the watch is resumed.
func (f *Feed) noteBreak(err error, retry time.Duration) {
	f.health.SetBroken(err)
	f.loaded = f.loaded && !needsLoad(err)
	message := "Feed from the API server broke and is resumed"
	switch {
	case errors.Is(err, errExpired):
		message = "Feed fell behind the API server and loads anew; clients behind it have to list again"
	case errors.Is(err, errSentOtherwise):
		message = "Feed loads anew from the API server, which sends objects otherwise than before; clients behind it have to list again"
	}
	f.cfg.Logger.Warn(message, "url", f.cfg.URL, "revision", f.applied.Load(), "err", err, "retryIn", retry)
}

// needsLoad reports whether the sink needs all objects anew after an error.
func needsLoad(err error) bool { return errors.Is(err, errExpired) || errors.Is(err, errSentOtherwise) }

// follow loads the resource unless it is loaded, and follows one watch to its end. loaded
// is called when the sink has all objects.
func (f *Feed) follow(ctx context.Context, loaded func()) error {
	if f.cfg.Checkpoint != nil && !f.checkpointTried {
		err := f.resume(ctx)
		if err != nil && !errors.Is(err, feed.ErrUnusable) {
			return err
		}
		if f.checkpointTried = true; err != nil {
			f.cfg.Logger.Warn("Checkpoint is not used, and objects are loaded from the API server", "url", f.cfg.URL, "reason", err)
		}
	}
	if err := f.trySibling(ctx); err != nil {
		return err
	}
	if !f.loaded && f.listsOnly {
		if err := f.loadPages(ctx); err != nil {
			return err
		}
		f.setLoaded()
	}
	if f.loaded {
		loaded()
		if err := f.confirm(ctx); err != nil {
			return err
		}
		return f.watch(ctx, nil)
	}
	initial := &initialEvents{done: func() { f.setLoaded(); loaded() }}
	err := f.watch(ctx, initial)
	if errors.Is(err, errNoWatchList) || errors.Is(err, errNoOrder) {
		f.cfg.Logger.Info("Feed loads pages", "url", f.cfg.URL, "reason", err)
		f.listsOnly = true
		return f.follow(ctx, loaded)
	}
	return err
}

// setLoaded notes that the sink has all objects.
func (f *Feed) setLoaded() { f.loaded, f.loadedAt = true, time.Now() }

// endLoad ends a load of objects whose history the server has. Reads may follow at once.
func (f *Feed) endLoad(ctx context.Context, loader feed.Loader, revision int64) {
	f.confirmed.Store(true)
	loader.End(ctx, revision)
}

// Tried is closed when the first load has succeeded or failed.
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

// HeardAt is when the watch last told something. It is zero before the first watch.
func (f *Feed) HeardAt() time.Time {
	if at := f.heardAt.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Depth is how many replicas an event has come through when the sink has it, the caller's
// included. It is 0 before the first watch.
func (f *Feed) Depth() int { return int(f.depth.Load()) }

func (f *Feed) setHeard() {
	now := time.Now()
	f.heardAt.Store(&now)
}

// setApplied notes the revision of a load. It fails if that is older than what the sink
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
	// hasKind says that the value has the object's kind. It is set for JSON.
	hasKind bool
	// endsInitial says that the object is the bookmark behind all initial events.
	endsInitial bool
}

// key is the object's key in etcd.
func (f *Feed) key(o *object) []byte {
	key := f.cfg.Prefix
	if o.namespace != "" {
		key += o.namespace + "/"
	}
	return []byte(key + o.name)
}

// present is the object as the sink gets it.
func (f *Feed) present(o *object) feed.Object {
	return feed.Object{Key: f.key(o), Value: o.value, Revision: o.revision}
}

// deletion is the event that deleted an object.
func (f *Feed) deletion(o *object) feed.Object {
	return feed.Object{Key: f.key(o), Revision: o.revision, Deleted: true}
}
