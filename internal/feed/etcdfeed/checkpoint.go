package etcdfeed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/feed"
)

// resume loads the checkpoint of the cluster, and reports whether it did. The error wraps
// feed.ErrUnusable if the checkpoint cannot be used; after any other error it may be tried
// again.
func (f *Feed) resume(ctx context.Context) (resumed bool, err error) {
	began := time.Now()
	head, err := f.cfg.Client.Get(ctx, f.cfg.Prefix+"\x00", clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return false, fmt.Errorf("read etcd's cluster id: %w", err)
	}
	if err := f.setCluster(head.Header); err != nil {
		return false, err
	}
	kept, err := f.cfg.Checkpoint(head.Header.ClusterId)
	if err != nil {
		return false, fmt.Errorf("%w: %w", feed.ErrUnusable, err)
	}
	if kept == nil {
		return false, nil
	}
	defer kept.Close()
	if kept.Witness() == nil {
		return false, nil // without objects a load costs as little
	}
	newest, err := f.confirmCheckpoint(ctx, kept)
	if err != nil {
		return false, err
	}
	loader := f.cfg.Sink.BeginLoad()
	if err := f.loadCheckpoint(ctx, kept, loader); err != nil {
		return false, err
	}
	loader.Expect(newest)
	loader.End(ctx, kept.Revision())
	f.checkpointTried = true
	f.setLoaded(kept.Revision(), newest)
	f.cfg.Logger.Info("Feed has loaded its checkpoint and replays what came after; watches resume from there on",
		"revision", kept.Revision(), "newest", newest, "took", time.Since(began).Round(time.Millisecond))
	return true, nil
}

// loadCheckpoint adds the objects of a checkpoint to a loader, and from etcd the objects
// that the checkpoint lacks.
func (f *Feed) loadCheckpoint(ctx context.Context, kept feed.Checkpoint, loader feed.Loader) error {
	if err := kept.Load(ctx, loader); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", feed.ErrUnusable, err)
	}
	f.witness = feed.WitnessOf(kept.Witness())
	for _, prefix := range kept.MissingPrefixes() {
		if err := f.loadPages(ctx, loader, &pageReader{feed: f, revision: kept.Revision()}, prefix); err != nil {
			return unusableIfCompacted(err)
		}
	}
	return nil
}

// confirmCheckpoint checks that etcd can continue a checkpoint, and returns etcd's newest
// revision.
func (f *Feed) confirmCheckpoint(ctx context.Context, kept feed.Checkpoint) (newest int64, err error) {
	newest, err = f.confirmHistory(ctx, kept.Revision(), feed.WitnessOf(kept.Witness()))
	if errors.Is(err, feed.ErrWentBack) {
		return 0, fmt.Errorf("%w: %w", feed.ErrUnusable, err)
	}
	if err != nil {
		return 0, unusableIfCompacted(err)
	}
	limit := f.cfg.HistoryRevisions
	if limit < 0 {
		limit = defaultHistoryRevisions
	}
	if behind := newest - kept.Revision(); behind > limit {
		return 0, fmt.Errorf("%w: it is %d revisions behind etcd, and at most %d are replayed", feed.ErrUnusable, behind, limit)
	}
	return newest, nil
}

func unusableIfCompacted(err error) error {
	if errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("%w: etcd no longer has the changes after it: %w", feed.ErrUnusable, err)
	}
	return err
}
