package testbed

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Interruptible returns a context that ends with the first SIGINT, SIGTERM or SIGHUP.
// A second signal has its default effect and kills the process, whose children the
// kernel then kills (see Child).
func Interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Cause returns the cause of ctx's end if ctx has ended, and err otherwise. An error
// of an operation that was cancelled says less than that cause.
func Cause(ctx context.Context, err error) error {
	if reason := context.Cause(ctx); reason != nil {
		return reason
	}
	return err
}

// Sleep waits for d, or for the end of ctx, whose cause it returns.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
