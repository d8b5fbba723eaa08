package testbed

import (
	"fmt"
	"time"
)

// Minimum is the value of a flag, and its lower bound.
type Minimum[T int | time.Duration] struct {
	Flag       string
	Value, Min T
}

// CheckMinimums returns an error that names the first flag below its bound.
func CheckMinimums[T int | time.Duration](flags []Minimum[T]) error {
	for _, f := range flags {
		if f.Value < f.Min {
			return fmt.Errorf("--%s=%v: must be at least %v", f.Flag, f.Value, f.Min)
		}
	}
	return nil
}
