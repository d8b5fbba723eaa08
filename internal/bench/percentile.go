package bench

import (
	"math"
	"slices"
	"time"
)

// latencies are percentiles of one workload's requests, in milliseconds.
type latencies struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// summarize sorts samples in place.
func summarize(samples []time.Duration) latencies {
	slices.Sort(samples)
	return latencies{
		P50: millis(percentile(samples, 50)),
		P90: millis(percentile(samples, 90)),
		P99: millis(percentile(samples, 99)),
		Max: millis(percentile(samples, 100)),
	}
}

// percentile returns the nearest-rank percentile of sorted samples: the
// smallest sample that at least p percent of all samples do not exceed. It is
// always a sample, never an interpolation; zero without samples.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
