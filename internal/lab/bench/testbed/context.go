package testbed

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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

// countPoll is the time between two looks of AwaitCount.
const countPoll = 5 * time.Millisecond

// AwaitCount returns when a counter has a value, or with an error after a time. what says what
// is counted.
func AwaitCount(ctx context.Context, counter *atomic.Int64, value int64, within time.Duration, what string) error {
	late := errors.New("late")
	ctx, cancel := context.WithTimeoutCause(ctx, within, late)
	defer cancel()
	for counter.Load() < value {
		if err := Sleep(ctx, countPoll); errors.Is(err, late) {
			return fmt.Errorf("%d of %d %s within %s", counter.Load(), value, what, within)
		} else if err != nil {
			return err
		}
	}
	return nil
}
