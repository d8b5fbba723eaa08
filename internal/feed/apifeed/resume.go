package apifeed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/feed"
)

// confirmKept checks that the objects of a checkpoint are of the server's history, before they
// are used. newest is the newest of them. The error wraps feed.ErrUnusable if they are not, or
// if the server no longer knows; after any other error it may be asked again.
func (f *Feed) confirmKept(ctx context.Context, revision int64, newest *feed.Object) error {
	w := feed.WitnessOf(newest)
	err := f.confirmHistory(ctx, revision, &w)
	if errors.Is(err, f.errOtherHistory) || needsLoad(err) {
		return fmt.Errorf("%w: %w", feed.ErrUnusable, err)
	}
	return err
}

// resume loads the checkpoint of the resource, if there is one. The error wraps
// feed.ErrUnusable if it cannot be used; after any other error it may be tried again.
func (f *Feed) resume(ctx context.Context) error {
	began := time.Now()
	kept, err := f.cfg.Checkpoint()
	if err != nil {
		return fmt.Errorf("%w: %w", feed.ErrUnusable, err)
	}
	if kept == nil {
		return nil
	}
	defer kept.Close()
	if kept.Witness() == nil {
		return nil // without objects a load costs as little
	}
	if err := f.confirmKept(ctx, kept.Revision(), kept.Witness()); err != nil {
		return err
	}
	loader := f.cfg.Sink.BeginLoad()
	if err := kept.Load(ctx, loader); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", feed.ErrUnusable, err)
	}
	f.endLoad(ctx, loader, kept.Revision())
	f.applied.Store(kept.Revision())
	f.witness, f.loaded = feed.WitnessOf(kept.Witness()), true
	f.cfg.Logger.Info("Feed has loaded its checkpoint and follows the API server from there on",
		"url", f.cfg.URL, "revision", kept.Revision(), "took", time.Since(began).Round(time.Millisecond))
	return nil
}
