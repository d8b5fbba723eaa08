package simulation

import "math"

// Buckets of latencies. Each bucket is bucketGrowth times as wide as the one before.
const (
	bucketGrowth = 1.01
	firstSeconds = 1e-6 // the end of the first bucket
	bucketCount  = 2500
)

// latencies counts deliveries by latency. Counts are fractional, because a simulated process stands
// for several processes.
type latencies struct {
	counts [bucketCount]float64
	total  float64
}

// perLog is the number of buckets for a factor of e: 1/log(bucketGrowth).
const perLog = 100.49917080713

// bucketOf returns the index of the bucket of a latency.
func bucketOf(seconds float64) int {
	if seconds <= firstSeconds {
		return 0
	}
	return min(bucketCount-1, int(math.Log(seconds/firstSeconds)*perLog))
}

// Points that stand for deliveries whose latencies are spread over a range. A range that is narrow,
// compared with the latency, needs fewer points.
const (
	spreadPoints = 64
	minPoints    = 2
)

// add counts deliveries whose latencies, in seconds, are spread evenly between from and to.
func (l *latencies) add(from, to, deliveries float64) {
	points := max(minPoints, int(spreadPoints*(to-from)/to))
	for i := range points {
		seconds := from + (to-from)*(float64(i)+0.5)/float64(points)
		l.counts[bucketOf(seconds)] += deliveries / float64(points)
	}
	l.total += deliveries
}

// quantile returns the latency, in seconds, that a fraction of the deliveries does not exceed. It
// returns 0 without deliveries.
func (l *latencies) quantile(fraction float64) float64 {
	if l.total == 0 {
		return 0
	}
	sum := 0.0
	for i, n := range l.counts {
		if sum += n; sum >= fraction*l.total {
			return firstSeconds * math.Pow(bucketGrowth, float64(i)+0.5)
		}
	}
	return firstSeconds * math.Pow(bucketGrowth, bucketCount)
}
