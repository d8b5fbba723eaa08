package testbed

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Interruptible returns a context that the first SIGINT, SIGTERM or SIGHUP
// ends. A second one has its default effect and ends the process at once; children
// follow it (see child).
func Interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Cause prefers the reason why ctx ended to the error that this has caused.
func Cause(ctx context.Context, err error) error {
	if reason := context.Cause(ctx); reason != nil {
		return reason
	}
	return err
}

// Sleep pauses unless ctx ends first.
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
