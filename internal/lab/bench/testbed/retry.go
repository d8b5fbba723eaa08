package testbed

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// RetryRefused calls do, and calls it again after each 429 with a Retry-After, as client-go
// does. A server that has just started refuses requests until its cache is filled.
// RetryRefused returns the number of these 429s. Only the end of ctx bounds it.
func RetryRefused(ctx context.Context, do func() error) (refused int, err error) {
	for ; ; refused++ {
		err := do()
		wait := RetryAfter(err)
		if wait == 0 {
			return refused, err
		}
		if err := Sleep(ctx, wait); err != nil {
			return refused, err
		}
	}
}

// RetryAfter returns the Retry-After of a 429, and zero for any other error.
func RetryAfter(err error) time.Duration {
	var status *StatusError
	if !errors.As(err, &status) || status.code != http.StatusTooManyRequests {
		return 0
	}
	return status.retryAfter
}
