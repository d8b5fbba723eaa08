package testbed

import (
	"context"
	"time"
)

// AtRate calls begin for n events, at a rate in events per second, which must be above 0. All
// times count from the start: after a slow call the next calls follow immediately, until the rate
// is reached again. The first error ends it.
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

// DueAfter returns the time from the start to event i. rate, in events per second, must be above
// 0.
func DueAfter(i int, rate float64) time.Duration {
	return time.Duration(float64(i) / rate * float64(time.Second))
}

// EventsIn returns the number of events within d at a rate in events per second, at least 1.
func EventsIn(d time.Duration, rate float64) int { return max(1, int(rate*d.Seconds()+0.5)) }
