package simulation

import "math"

// Buckets of latencies: each is bucketGrowth times as wide as the one before.
const (
	bucketGrowth = 1.01
	shortest     = 1e-6 // seconds
	buckets      = 2500
)

// latencies counts deliveries by their time.
type latencies struct {
	counts [buckets]float64
	total  float64
}

// perLog is how many buckets a factor of e has: 1/log(bucketGrowth).
const perLog = 100.49917080713

func bucketOf(seconds float64) int {
	if seconds <= shortest {
		return 0
	}
	return min(buckets-1, int(math.Log(seconds/shortest)*perLog))
}

// Points that stand for deliveries which are spread over a time: the fewer, the shorter the
// time is to the latency.
const spreadPoints, fewestPoints = 64, 2

// add counts deliveries whose latencies are spread evenly between two.
func (l *latencies) add(from, to, deliveries float64) {
	points := max(fewestPoints, int(spreadPoints*(to-from)/to))
	for i := range points {
		seconds := from + (to-from)*(float64(i)+0.5)/float64(points)
		l.counts[bucketOf(seconds)] += deliveries / float64(points)
	}
	l.total += deliveries
}

// quantile is the latency that a share of deliveries does not exceed. It is 0 without any.
func (l *latencies) quantile(share float64) float64 {
	if l.total == 0 {
		return 0
	}
	sum := 0.0
	for i, n := range l.counts {
		if sum += n; sum >= share*l.total {
			return shortest * math.Pow(bucketGrowth, float64(i)+0.5)
		}
	}
	return shortest * math.Pow(bucketGrowth, buckets)
}
