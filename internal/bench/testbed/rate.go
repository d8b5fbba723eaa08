package testbed

import (
	"context"
	"time"
)

// AtRate calls begin for each of n events when it is due. Who is late catches up:
// the schedule is that of the start.
func AtRate(ctx context.Context, n int, rate float64, begin func(int) error) error {
	start := time.Now()
	for i := range n {
		if err := Sleep(ctx, time.Until(start.Add(dueAfter(i, rate)))); err != nil {
			return err
		}
		if err := begin(i); err != nil {
			return err
		}
	}
	return nil
}

// dueAfter is when event i begins, counted from the start.
func dueAfter(i int, rate float64) time.Duration {
	return time.Duration(float64(i) / rate * float64(time.Second))
}
