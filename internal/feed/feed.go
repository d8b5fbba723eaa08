package feed

import (
	"context"
	"errors"
	"time"
)

// Feed is what users of a feed may ask of it, whatever its source is. All methods but Run may
// be called by any goroutine at any time. Run may be called once.
type Feed interface {
	// Run follows the source until the context ends, and returns the context's error, or
	// one that wraps ErrWentBack. It retries after all other errors.
	Run(ctx context.Context) error
	// Healthy returns nil while the feed follows, and otherwise the reason why it does not.
	Healthy() error
	// BrokenSince is Health.BrokenSince.
	BrokenSince() time.Time
	// Revision reads the newest revision from the source: every write that was acknowledged
	// before the call has that revision or a smaller one. It fails while the feed does not
	// know that the source has the history that the sink has.
	Revision(ctx context.Context) (int64, error)
	// RequestProgress asks the source for its progress, and does not wait for it. The progress
	// reaches the sink, or is lost: the caller repeats the request.
	RequestProgress(ctx context.Context) error
}

// RunUntil calls run, and ends its context when failed has an error. failed may be nil.
// RunUntil returns once run has returned: the error from failed if that wraps ErrWentBack, and
// else what run has returned. After an ErrWentBack it sets health to broken.
func RunUntil(ctx context.Context, failed <-chan error, health *Health, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case err := <-failed:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	err := run(ctx)
	cancel(nil)
	<-ended
	if cause := context.Cause(ctx); errors.Is(cause, ErrWentBack) {
		err = cause
	}
	if errors.Is(err, ErrWentBack) {
		health.SetBroken(err)
	}
	return err
}
