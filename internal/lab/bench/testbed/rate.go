package testbed

import (
	"context"
	"time"
)

// AtRate calls begin for n events, rate of them a second. All times are counted from
// the start: after a slow call the next ones follow at once, until the rate is
// reached again.
func AtRate(ctx context.Context, n int, rate float64, begin func(int) error) error {
	start := time.Now()
	for i := range n {
		if err := Sleep(ctx, time.Until(start.Add(DueAfter(i, rate)))); err != nil {
			return err
		}
		if err := begin(i); err != nil {
			return err
		}
	}
	return nil
}

// DueAfter is the time from the start to event i.
func DueAfter(i int, rate float64) time.Duration {
	return time.Duration(float64(i) / rate * float64(time.Second))
}

// EventsIn is how many events there are within d, one at least.
func EventsIn(d time.Duration, rate float64) int { return max(1, int(rate*d.Seconds()+0.5)) }
