package testbed

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Cause returns the cause of ctx's end if ctx has ended, and err otherwise. The error of an
// operation that was cancelled says less than that cause.
func Cause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// Sleep waits for d and returns nil. If ctx ends first, it returns the cause of that.
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

// countPollInterval is the time between two readings of the counter by AwaitCount.
const countPollInterval = 5 * time.Millisecond

// AwaitCount waits until a counter has reached value. It returns an error after timeout. what
// says what is counted, for that error.
func AwaitCount(ctx context.Context, counter *atomic.Int64, value int64, timeout time.Duration, what string) error {
	late := errors.New("late")
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	for counter.Load() < value {
		if err := Sleep(ctx, countPollInterval); errors.Is(err, late) {
			return fmt.Errorf("%d of %d %s within %s", counter.Load(), value, what, timeout)
		} else if err != nil {
			return err
		}
	}
	return nil
}
