package etcdfeed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/feed"
)

// FeedConfig configures a Feed.
type FeedConfig struct {
	// Client is shared with other users. The feed does not close it.
	Client *clientv3.Client
	// Prefix begins all keys. It ends with a slash.
	Prefix string
	// Sink receives objects and events.
	Sink feed.Sink
	// HistoryRevisions is the largest number of revisions between the one that is loaded
	// and etcd's newest. It bounds the time of a start, and the memory that etcd takes to
	// send the events between. Zero means 50,000. A negative number loads the newest
	// revision.
	HistoryRevisions int64
	// Stream says that objects are loaded in one stream, if etcd can send one, and else in
	// pages.
	Stream bool
	// MaxSilence is the time without a response after which the watch is opened again. Zero
	// means 30 s.
	MaxSilence time.Duration
	// Checkpoint finds what was kept of a cluster, by its id. The first load takes it if it
	// can be used. It returns nil if nothing was kept. Nil means that nothing ever is.
	Checkpoint func(clusterID uint64) (feed.Checkpoint, error)
	// WatchStreams counts the streams of Client. Nil means that they cannot break, as in a
	// client of an etcd in this process.
	WatchStreams *WatchStreams
	// Account receives figures of how etcd answers. It may be nil.
	Account *slo.FeedAccount
	// Logger receives loads and breaks of the watch. Nil means slog.Default.
	Logger *slog.Logger
}

// Feed follows all keys under one prefix of one etcd, with a single range and a single
// watch. By contrast, kube-apiserver has a range and a watch for each resource.
//
// With one watch, all resources share one order of events. One revision says how fresh
// all of them are, and a resource costs no stream. The price is that one goroutine hands
// all events to the sink, and that a break of the watch concerns all resources.
//
// The range is at the oldest revision that etcd still holds, within bounds, and the watch
// replays the events since. So the sink has the recent events as if it had been there,
// and a client that followed another process resumes here.
//
//	  ┌────────────────────────────compacted────────────────────────────┐
//	  ▼                                                                 │
//	load ──oldest revision──► replay ──as new as at the load──► follow  │
//	  ▲                          │ ▲                             │ ▲    │
//	  └──error, back off         └─┴────────── broken ───────────┴─┴────┘
//	                                     back off, resume
//
// If the history is compacted while it is read, the load begins again at the oldest
// revision that is left. After a few times it begins at the newest one. Replaying and
// following are the same watch. Only a feed that follows is healthy.
//
// A checkpoint may take the place of the first load. After a break, and at a response of an
// older revision, etcd may have been exchanged. The feed then confirms that etcd has the
// history that the sink has, and ends if etcd has another history.
type Feed struct {
	cfg    FeedConfig
	health feed.Health
	// applied is the revision up to which the sink has all events. Later loads never go back
	// before it. Only Run's goroutine sets it.
	applied atomic.Int64
	// state is what the sink has, for confirmations outside of Run's goroutine. It is nil
	// before the first load.
	state atomic.Pointer[sinkState]
	// readsConfirmed is WatchStreams.changes at the last confirmation for reads.
	readsConfirmed atomic.Int64
	// cluster is the id of the cluster that has answered. It is 0 before the first answer.
	cluster atomic.Uint64
	// failed has the error that ends Run.
	failed chan error

	// Only Run's goroutine uses the fields below.

	// newestAtLoad was etcd's newest revision when the load began.
	newestAtLoad int64
	// checkpointTried says that the checkpoint was loaded or cannot be used.
	checkpointTried bool
	// witness is what the sink got last.
	witness feed.Witness
	// confirmedStreams is WatchStreams.opened at the last response.
	confirmedStreams int64
}

var errNotCaughtUp = errors.New("the feed has not caught up yet")

const (
	// defaultHistoryRevisions take 5 s to replay: etcd sends old events in batches of
	// 1,000 revisions, one each 0.1 s (docs/bench/history.md).
	defaultHistoryRevisions = 50_000
	// maxCompactedLoads is the number of loads in a row that may lose their history to a
	// compaction. The next load is at the newest revision.
	maxCompactedLoads = 3

	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// NewFeed makes a feed. It does nothing before Run.
func NewFeed(cfg FeedConfig) *Feed {
	if cfg.HistoryRevisions == 0 {
		cfg.HistoryRevisions = defaultHistoryRevisions
	}
	if cfg.MaxSilence == 0 {
		cfg.MaxSilence = defaultMaxSilence
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Feed{cfg: cfg, failed: make(chan error, 1)}
}

// Run follows etcd until the context ends, and returns the context's error. After errors
// of etcd it retries for as long as it takes, unless the error is feed.ErrWentBack.
func (f *Feed) Run(ctx context.Context) error { return feed.RunUntil(ctx, f.failed, &f.health, f.run) }

func (f *Feed) run(ctx context.Context) error {
	// Without the requirement, a watch on a member without a leader would stay silent.
	ctx = clientv3.WithRequireLeader(ctx)
	f.health.SetBroken(errNotCaughtUp)
	backoff := minBackoff
	// compactedLoads is the number of loads that were compacted away since the feed last
	// followed.
	loaded, compactedLoads := false, 0
	for {
		began := time.Now()
		var err error
		if !loaded {
			err = f.load(ctx, compactedLoads < maxCompactedLoads)
			loaded = err == nil
		} else {
			err = f.confirm(ctx)
		}
		if err == nil {
			err = f.followWatch(ctx)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.cfg.Account.WatchBroke(err)
		if errors.Is(err, feed.ErrWentBack) {
			return err
		}
		f.health.SetBroken(err)
		if loaded && f.caughtUp() {
			compactedLoads = 0
		}
		if errors.Is(err, rpctypes.ErrCompacted) {
			f.cfg.Logger.Warn("Feed was compacted away and loads again; its clients have to list again", "revision", f.applied.Load())
			loaded = false
			compactedLoads++
			continue
		}
		if time.Since(began) > maxBackoff {
			backoff = minBackoff
		}
		f.cfg.Logger.Warn("Feed from etcd broke and is resumed; check that etcd is up and reachable", "revision", f.applied.Load(), "err", err, "retryIn", backoff)
		select {
		case <-time.After(backoff/2 + rand.N(backoff)):
		case <-ctx.Done():
			return ctx.Err()
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// caughtUp reports whether a loaded feed has replayed what was there when the load began.
func (f *Feed) caughtUp() bool { return f.applied.Load() >= f.newestAtLoad }

// Healthy returns nil while the feed follows, and otherwise the reason why it does not.
func (f *Feed) Healthy() error {
	if f.health.Following() {
		return nil
	}
	if err := f.health.Err(); err != nil {
		return fmt.Errorf("feed from etcd is broken: %w", err)
	}
	return errNotCaughtUp
}

// BrokenSince returns when the feed ceased to follow etcd, as Health.BrokenSince does.
func (f *Feed) BrokenSince() time.Time { return f.health.BrokenSince() }

// Revision reads the newest revision from a quorum. An etcd at an older revision than the
// feed, or with another history, ends Run. The error then wraps feed.ErrWentBack.
func (f *Feed) Revision(ctx context.Context) (int64, error) {
	before := f.applied.Load()
	revision, err := Revision(ctx, f.cfg.Client, f.cfg.Prefix)
	if err == nil && revision < before {
		return 0, f.noteWentBack(before, revision)
	}
	if err == nil {
		err = f.confirmForReads(ctx)
	}
	return revision, err
}

// RequestProgress asks etcd for a progress notification on the feed's watch.
func (f *Feed) RequestProgress(ctx context.Context) error {
	// The context's metadata must equal the metadata of the watch: it identifies the
	// stream.
	if err := f.cfg.Client.RequestProgress(clientv3.WithRequireLeader(ctx)); err != nil {
		return fmt.Errorf("request progress: %w", err)
	}
	return nil
}

// Revision reads etcd's newest revision from a quorum. Every write that was acknowledged
// before the call has that revision or a smaller one.
func Revision(ctx context.Context, kv clientv3.KV, prefix string) (int64, error) {
	// The range is empty: the response's header has the revision.
	resp, err := kv.Get(ctx, prefix+"\x00", clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return 0, fmt.Errorf("read current revision: %w", err)
	}
	return resp.Header.Revision, nil
}
