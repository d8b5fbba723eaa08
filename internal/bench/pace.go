package bench

import (
	"context"
	"time"
)

// pace calls begin for each of n events when it is due. Who is late catches up:
// the schedule is that of the start.
func pace(ctx context.Context, n int, rate float64, begin func(int) error) error {
	start := time.Now()
	for i := range n {
		if err := sleep(ctx, time.Until(start.Add(due(i, rate)))); err != nil {
			return err
		}
		if err := begin(i); err != nil {
			return err
		}
	}
	return nil
}

// due is when event i begins, counted from the start.
func due(i int, rate float64) time.Duration {
	return time.Duration(float64(i) / rate * float64(time.Second))
}
