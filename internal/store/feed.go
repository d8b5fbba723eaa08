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
)

// Sink receives what a feed reads. Its methods are called by one goroutine.
type Sink interface {
	// BeginLoad begins to replace all that the sink holds.
	BeginLoad() Loader
	// Apply takes the events of one watch response, in revision order. All
	// events of a revision are in one response.
	Apply(ctx context.Context, events []*clientv3.Event)
	// Progressed says that all events up to a revision have been applied.
	Progressed(revision int64)
}

// Loader receives the objects of one revision.
type Loader interface {
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
	// Log receives breaks of the watch. Nil means slog.Default.
	Log *slog.Logger
}

// Feed follows everything under one prefix of one etcd with a single range and
// a single watch: all resources share one order of events, so one number says
// how fresh all of them are, and a resource costs no stream.
//
//	        ┌────────────────────────────────────────────┐ compacted
//	        ▼                                            │
//	load (range, paged) ──revision──► watch ──broken──► resume
//	        ▲                           ▲                │
//	        └──error, back off──        └────────────────┘
type Feed struct {
	cfg     FeedConfig
	healthy atomic.Bool
	lastErr atomic.Pointer[error]
}

const (
	// firstPage and pageBytes steer how many objects a page has: objects may be
	// as large as 1.5 MB, and two pages are in memory at a time.
	firstPage = 200
	pageBytes = 8 << 20
	maxPage   = 5000

	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
	// progressPeriod keeps the revision moving when only keys outside the
	// prefix are written.
	progressPeriod = 5 * time.Second
	// silence is how long a watch may say nothing although it is asked for
	// progress every few seconds. Then it is opened anew.
	silence = 30 * time.Second
)

// NewFeed makes a feed. It does nothing before Run.
func NewFeed(cfg FeedConfig) *Feed {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Feed{cfg: cfg}
}

// Run follows etcd until the context ends. Errors of etcd are waited out.
func (f *Feed) Run(ctx context.Context) error {
	// The requirement of a leader ends the watch on a member that was cut off.
	ctx = clientv3.WithRequireLeader(ctx)
	backoff := minBackoff
	var revision int64
	for {
		began := time.Now()
		var err error
		if revision == 0 {
			revision, err = f.load(ctx)
		}
		if err == nil {
			revision, err = f.watch(ctx, revision)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.healthy.Store(false)
		f.lastErr.Store(&err)
		if errors.Is(err, rpctypes.ErrCompacted) {
			f.cfg.Log.Warn("Feed was compacted away and reads everything anew; clients behind it have to list again", "revision", revision)
			revision = 0
			continue
		}
		if time.Since(began) > maxBackoff {
			backoff = minBackoff
		}
		f.cfg.Log.Warn("Feed from etcd broke and is resumed; check that etcd is up and reachable", "revision", revision, "err", err, "retryIn", backoff)
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return ctx.Err()
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// Healthy returns nil while the watch is open, and otherwise why it is not.
func (f *Feed) Healthy() error {
	if f.healthy.Load() {
		return nil
	}
	if err := f.lastErr.Load(); err != nil {
		return fmt.Errorf("feed from etcd is broken: %w", *err)
	}
	return errors.New("feed from etcd has not loaded yet")
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

type page struct {
	kvs      []*mvccpb.KeyValue
	revision int64
	err      error
}

// load reads everything at one revision. The next page is read while the last
// one is decoded.
func (f *Feed) load(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages := make(chan page)
	go f.readPages(ctx, pages)
	loader := f.cfg.Sink.BeginLoad()
	var revision int64
	for p := range pages {
		if p.err != nil {
			return 0, p.err
		}
		revision = p.revision
		loader.Add(ctx, p.kvs)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	loader.End(ctx, revision)
	return revision, nil
}

func (f *Feed) readPages(ctx context.Context, pages chan<- page) {
	defer close(pages)
	send := func(p page) bool {
		select {
		case pages <- p:
			return p.err == nil
		case <-ctx.Done():
			return false
		}
	}
	from, end := f.cfg.Prefix, clientv3.GetPrefixRangeEnd(f.cfg.Prefix)
	limit, revision := int64(firstPage), int64(0)
	for {
		resp, err := f.cfg.Client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(limit), clientv3.WithRev(revision))
		if err != nil {
			send(page{err: fmt.Errorf("range %s: %w", f.cfg.Prefix, err)})
			return
		}
		if revision == 0 {
			revision = resp.Header.Revision
		}
		if !send(page{kvs: resp.Kvs, revision: revision}) || !resp.More {
			return
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
		limit = nextLimit(resp.Kvs)
	}
}

// nextLimit aims at pageBytes, judging by the last page.
func nextLimit(kvs []*mvccpb.KeyValue) int64 {
	var size int64
	for _, kv := range kvs {
		size += int64(len(kv.Value))
	}
	return min(maxPage, max(10, pageBytes*int64(len(kvs))/(size+1)))
}

// watch applies events from behind a revision until the watch breaks. It
// returns the revision to resume from.
func (f *Feed) watch(ctx context.Context, revision int64) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	responses := f.cfg.Client.Watch(ctx, f.cfg.Prefix,
		clientv3.WithPrefix(), clientv3.WithRev(revision+1), clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
	ticker := time.NewTicker(progressPeriod)
	defer ticker.Stop()
	heard := time.Now()
	for {
		select {
		case resp, open := <-responses:
			if !open {
				return revision, errors.New("watch channel closed")
			}
			if err := resp.Err(); err != nil {
				return revision, fmt.Errorf("watch %s: %w", f.cfg.Prefix, err)
			}
			if resp.Created {
				f.healthy.Store(true)
				continue
			}
			if len(resp.Events) > 0 {
				f.cfg.Sink.Apply(ctx, resp.Events)
				revision = resp.Events[len(resp.Events)-1].Kv.ModRevision
			} else if resp.IsProgressNotify() {
				revision = max(revision, resp.Header.Revision)
				f.cfg.Sink.Progressed(revision)
			}
			heard = time.Now()
		case <-ticker.C:
			if since := time.Since(heard); since > silence {
				return revision, fmt.Errorf("watch %s: silent for %v", f.cfg.Prefix, since.Round(time.Second))
			}
			// Lost requests are made up for by the next.
			_ = f.RequestProgress(ctx)
		}
	}
}
