package fill

import (
	"context"
	"time"
)

// retry calls try until it succeeds, returns an error that is not transient, or has
// failed ten times, which takes about half a minute. It returns the last error.
func retry(ctx context.Context, transient func(error) bool, try func() error) error {
	const (
		attempts = 10
		shortest = 50 * time.Millisecond
		longest  = 8 * time.Second
	)
	pause := shortest
	for attempt := 1; ; attempt++ {
		err := try()
		if err == nil || attempt == attempts || ctx.Err() != nil || !transient(err) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
		pause = min(2*pause, longest)
	}
}
