package testbed

import (
	"context"
	"time"
)

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
