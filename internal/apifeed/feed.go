package apifeed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/store"
)

// ErrWentBack says that the server's newest revision is older than one it has told of: its
// etcd was restored from a backup, or another server answers at its address.
var ErrWentBack = errors.New("the API server has gone back in time")

// errExpired says that the server no longer has the events behind a revision.
var errExpired = errors.New("the API server no longer has the changes")

// Config of a Feed.
type Config struct {
	// Client sends requests with credentials that may list and watch the resource.
	Client *http.Client
	// URL is the collection of all objects of the resource in one version.
	URL string
	// Protobuf asks for protobuf, which only built-in kinds have. Others come as JSON.
	Protobuf bool
	// Prefix begins the keys that the sink gets. It ends with a slash.
	Prefix string
	// Sink receives objects and events.
	Sink store.Sink
	// Logger receives loads and breaks. Nil means slog.Default.
	Logger *slog.Logger
}

// Feed follows one resource with a single watch. The watch begins with all objects
// (KEP-3157), or behind a list in pages where the server has no such watches. When it
// ends, the next one resumes where it ended.
//
//	  ┌──────────────────────── 410 ────────────────────────┐
//	  ▼                                                      │
//	load ──all objects──► follow ──ended──► follow from the last revision
//	  ▲  │
//	  └──┘ error, back off
type Feed struct {
	cfg     Config
	codec   codec
	healthy atomic.Bool
	// applied is the revision up to which the sink has everything, 0 before the first load.
	applied atomic.Int64
	lastErr atomic.Pointer[error]
	// heardAt is when the watch last told something: that it has begun, an event or a
	// bookmark.
	heardAt atomic.Pointer[time.Time]
	// giveUp has the error that ends Run.
	giveUp chan error

	// listsOnly says that the server has no watches that begin with all objects. Only
	// Run's goroutine uses it.
	listsOnly bool
}

const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// New makes a feed. It does nothing before Run.
func New(cfg Config) *Feed {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	f := &Feed{cfg: cfg, codec: jsonCodec{}, giveUp: make(chan error, 1)}
	if cfg.Protobuf {
		f.codec = protobufCodec{}
	}
	return f
}

// Run follows the resource until the context ends, and returns the context's error. After
// errors it retries for as long as it takes, unless the error is ErrWentBack.
func (f *Feed) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-f.giveUp:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	return f.run(ctx)
}

func (f *Feed) run(ctx context.Context) error {
	backoff := minBackoff
	for loaded := false; ; {
		began := time.Now()
		err := f.follow(ctx, &loaded)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, ErrWentBack) {
			return err
		}
		if time.Since(began) > maxBackoff {
			backoff = minBackoff
		}
		if err != nil {
			f.noteBreak(err, backoff)
		} else if time.Since(began) > backoff {
			continue // the server ended the watch in its time
		}
		if errors.Is(err, errExpired) {
			loaded = false
		}
		select {
		case <-time.After(backoff/2 + rand.N(backoff)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

func (f *Feed) noteBreak(err error, retry time.Duration) {
	f.healthy.Store(false)
	f.lastErr.Store(&err)
	message := "Feed from the API server broke and is resumed"
	if errors.Is(err, errExpired) {
		message = "Feed fell behind the API server and loads anew; clients behind it have to list again"
	}
	f.cfg.Logger.Warn(message, "url", f.cfg.URL, "revision", f.applied.Load(), "err", err, "retryIn", retry)
}

// follow loads the resource unless it is loaded, and follows one watch to its end.
func (f *Feed) follow(ctx context.Context, loaded *bool) error {
	if !*loaded && f.listsOnly {
		if err := f.loadPages(ctx); err != nil {
			return err
		}
		*loaded = true
	}
	if *loaded {
		return f.watch(ctx, nil)
	}
	initial := &initialEvents{done: func() { *loaded = true }}
	err := f.watch(ctx, initial)
	if errors.Is(err, errNoWatchList) {
		f.listsOnly = true
		return f.follow(ctx, loaded)
	}
	return err
}

// Healthy returns nil while the feed follows, and otherwise the reason why it does not.
func (f *Feed) Healthy() error {
	if f.healthy.Load() {
		return nil
	}
	if err := f.lastErr.Load(); err != nil {
		return fmt.Errorf("feed from %s is broken: %w", f.cfg.URL, *err)
	}
	return fmt.Errorf("feed from %s has not loaded yet", f.cfg.URL)
}

// HeardAt is when the watch last told something. It is zero before the first watch.
func (f *Feed) HeardAt() time.Time {
	if at := f.heardAt.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

func (f *Feed) setHeard() {
	now := time.Now()
	f.heardAt.Store(&now)
}

// setApplied notes the revision of a load. It fails if that is older than what the sink
// has.
func (f *Feed) setApplied(revision int64) error {
	if before := f.applied.Load(); revision < before {
		return fmt.Errorf("%w: %s was at revision %d and is at %d", ErrWentBack, f.cfg.URL, before, revision)
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

// present is the object as a key-value of etcd.
func (f *Feed) present(o *object) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: f.key(o), Value: o.value, ModRevision: o.revision, Version: 1}
}

// put is the event that created or changed an object.
func (f *Feed) put(o *object) *clientv3.Event {
	return &clientv3.Event{Type: clientv3.EventTypePut, Kv: f.present(o)}
}

// deletion is the event that deleted an object. A key-value without a version is a
// tombstone.
func (f *Feed) deletion(o *object) *clientv3.Event {
	return &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: f.key(o), ModRevision: o.revision}}
}
