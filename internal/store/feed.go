package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/slo"
)

// Sink receives what a feed reads. Its methods are called by one goroutine.
type Sink interface {
	// BeginLoad begins to replace all that the sink holds.
	BeginLoad() Loader
	// Received says when the response came whose events Apply takes next.
	Received(at time.Time)
	// Apply takes the events of one watch response, in revision order. All
	// events of a revision are in one response.
	Apply(ctx context.Context, events []*clientv3.Event)
	// Progressed says that all events up to a revision have been applied.
	Progressed(revision int64)
}

// Loader receives the objects of one revision.
type Loader interface {
	// Expect says, before End, that the load is of the past: the events up to
	// newest follow at once. A sink that serves nobody yet must not begin before
	// it has been told that they have been applied.
	Expect(newest int64)
	// Add takes a page, in key order.
	Add(ctx context.Context, page []*mvccpb.KeyValue)
	// End says that the pages were everything, at a revision.
	End(ctx context.Context, revision int64)
}

// FeedConfig of a Feed.
type FeedConfig struct {
	// Client is shared with all others; the feed does not close it.
	Client *clientv3.Client
	// Prefix is the beginning of all keys, with a slash at the end.
	Prefix string
	// Sink receives objects and events.
	Sink Sink
	// HistoryRevisions is how many revisions before the newest a load begins at
	// most. It bounds the time of a start, and the memory that etcd takes to send
	// them. Zero means 50,000; less than zero loads the newest state.
	HistoryRevisions int64
	// Account is told how etcd answers. Nil tells nobody.
	Account *slo.FeedAccount
	// Logger receives loads and breaks of the watch. Nil means slog.Default.
	Logger *slog.Logger
}

// Feed follows everything under one prefix of one etcd with a single range and
// a single watch: all resources share one order of events, so one number says
// how fresh all of them are, and a resource costs no stream.
//
// The range is at the oldest revision that etcd still holds, within bounds, and
// the watch replays what came after. So the sink knows the recent past as if it
// had been there, and whoever followed another process from a revision in it
// goes on here.
//
//	  ┌────────────────────────────compacted────────────────────────────┐
//	  ▼                                                                 │
//	load ──oldest revision──► replay ──as new as at the load──► follow  │
//	  ▲                          │ ▲                             │ ▲    │
//	  └──error, back off         └─┴────────── broken ───────────┴─┴────┘
//	                                     back off, resume
//
// History that is compacted while it is read makes the load begin again at what
// is left, and after a few times at the newest revision. Replaying and following
// are one watch; only a feed that follows is healthy.
type Feed struct {
	cfg     FeedConfig
	healthy atomic.Bool
	lastErr atomic.Pointer[error]

	// The rest is Run's. reached is the revision up to which the sink has
	// everything; no load is of before. newest was etcd's when the load began.
	reached, newest int64
}

const (
	// defaultHistory is 5 s of replay: etcd sends 1,000 revisions each 0.1 s to a
	// watch of the past. See docs/bench/history.md.
	defaultHistory = 50_000
	// maxLost is how many loads are tried whose history is compacted meanwhile.
	maxLost = 3

	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// NewFeed makes a feed. It does nothing before Run.
func NewFeed(cfg FeedConfig) *Feed {
	if cfg.HistoryRevisions == 0 {
		cfg.HistoryRevisions = defaultHistory
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Feed{cfg: cfg}
}

// Run follows etcd until the context ends. Errors of etcd are waited out.
func (f *Feed) Run(ctx context.Context) error {
	// The requirement of a leader ends the watch on a member that was cut off.
	ctx = clientv3.WithRequireLeader(ctx)
	f.healthy.Store(false)
	backoff := minBackoff
	// lost counts loads since the feed last followed.
	loaded, lost := false, 0
	for {
		began := time.Now()
		var err error
		if !loaded {
			err = f.load(ctx, lost < maxLost)
			loaded = err == nil
		}
		if err == nil {
			err = f.watch(ctx)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.healthy.Store(false)
		f.lastErr.Store(&err)
		f.cfg.Account.WatchBroke(err)
		if loaded && f.following() {
			lost = 0
		}
		if errors.Is(err, rpctypes.ErrCompacted) {
			f.cfg.Logger.Warn("Feed was compacted away and loads anew; clients behind it have to list again", "revision", f.reached)
			loaded = false
			lost++
			continue
		}
		if time.Since(began) > maxBackoff {
			backoff = minBackoff
		}
		f.cfg.Logger.Warn("Feed from etcd broke and is resumed; check that etcd is up and reachable", "revision", f.reached, "err", err, "retryIn", backoff)
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return ctx.Err()
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// following tells it from replaying, once the feed has loaded.
func (f *Feed) following() bool { return f.reached >= f.newest }

// Healthy returns nil while the feed follows, and otherwise why it does not.
func (f *Feed) Healthy() error {
	if f.healthy.Load() {
		return nil
	}
	if err := f.lastErr.Load(); err != nil {
		return fmt.Errorf("feed from etcd is broken: %w", *err)
	}
	return errors.New("feed from etcd has not caught up yet")
}

// Revision reads the current revision from a quorum.
func (f *Feed) Revision(ctx context.Context) (int64, error) {
	return Revision(ctx, f.cfg.Client, f.cfg.Prefix)
}

// RequestProgress asks etcd to say on the feed's watch how far it has come.
func (f *Feed) RequestProgress(ctx context.Context) error {
	// The metadata must be the watch's: it names the stream.
	if err := f.cfg.Client.RequestProgress(clientv3.WithRequireLeader(ctx)); err != nil {
		return fmt.Errorf("request progress: %w", err)
	}
	return nil
}
