package render

import (
	"math"
	"slices"
	"time"
)

// Latencies are percentiles of the latencies of one workload's requests or events, in
// milliseconds.
type Latencies struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Summarize returns the percentiles of samples, which it sorts in place.
func Summarize(samples []time.Duration) Latencies {
	slices.Sort(samples)
	return Latencies{
		P50: Millis(Percentile(samples, 50)),
		P90: Millis(Percentile(samples, 90)),
		P99: Millis(Percentile(samples, 99)),
		Max: Millis(Percentile(samples, 100)),
	}
}

// Percentile returns the nearest-rank percentile of sorted samples: the smallest sample that at
// least p percent of all samples do not exceed. It never interpolates. Without samples it
// returns zero.
func Percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
