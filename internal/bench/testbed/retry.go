package testbed

import "context"

// RetryRefused calls do, and calls it again after each 429 with a Retry-After, as client-go
// does: a server that has just started refuses requests until its cache is filled. It ends with
// ctx, whose end the caller must have bounded.
func RetryRefused(ctx context.Context, do func() error) error {
	for {
		err := do()
		wait := RetryAfter(err)
		if wait == 0 {
			return err
		}
		if err := Sleep(ctx, wait); err != nil {
			return err
		}
	}
}
