package usage

import (
	"context"
	"sync/atomic"
	"time"
)

// WaitClock adds up how long a request has waited: for etcd, a webhook, its client. The
// zero value is ready. Its methods may be called by any goroutine.
type WaitClock struct{ waited atomic.Int64 }

type waitClockKey struct{}

// WithContext returns a context with which AddWait finds the clock.
func (c *WaitClock) WithContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, waitClockKey{}, c)
}

// Add records that the request has waited from since until now.
func (c *WaitClock) Add(since time.Time) { c.waited.Add(int64(time.Since(since))) }

// TotalWait returns how long the request has waited so far.
func (c *WaitClock) TotalWait() time.Duration { return time.Duration(c.waited.Load()) }

// AddWait records that the request of ctx has waited from since until now. It does nothing for
// a context without a clock.
func AddWait(ctx context.Context, since time.Time) {
	if c, ok := ctx.Value(waitClockKey{}).(*WaitClock); ok {
		c.Add(since)
	}
}
