package slo

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// Buckets of sketches. Their width grows with the time, so that quantiles are off by 1 %
// at most. There are 36 buckets for each doubling, from a microsecond to 71 minutes.
//
// Logarithms would cost too much for each event. As in DDSketch (Masson, Rim, Lee, VLDB
// 2019), a cubic interpolates the logarithm between powers of two. There it is exact,
// and nowhere steeper than 1.01 times the logarithm.
const (
	perDoubling = 36
	doublings   = 32
	// buckets includes bucket 0, which has all times below a microsecond.
	buckets = 1 + doublings*perDoubling

	cubicA, cubicB, cubicC = 6.0 / 35, -3.0 / 5, 10.0 / 7
)

// bucket returns the bucket of d. More than 71 minutes are in the last.
func bucket(d time.Duration) int {
	if d < time.Microsecond {
		return 0
	}
	bits := math.Float64bits(float64(d) / float64(time.Microsecond))
	exponent := int(bits>>52) - 1023
	s := math.Float64frombits(bits&(1<<52-1)|1023<<52) - 1
	return min(1+exponent*perDoubling+int(((cubicA*s+cubicB)*s+cubicC)*s*perDoubling), buckets-1)
}

// bucketValues are the times, in seconds, that stand for the times of a bucket. Their
// relative distance to both bounds of the bucket is the same.
var bucketValues = sync.OnceValue(func() *[buckets]float64 {
	var table [buckets]float64
	for i := 1; i < buckets; i++ {
		low, high := upperBound(i-1), upperBound(i)
		table[i] = 2 * low * high / (low + high) / 1e6
	}
	return &table
})

// upperBound returns the smallest time of bucket i+1, in microseconds. It inverts the
// cubic by bisection.
func upperBound(i int) float64 {
	part := float64(i%perDoubling) / perDoubling
	low, high := 0.0, 1.0
	for range 60 {
		s := (low + high) / 2
		if ((cubicA*s+cubicB)*s+cubicC)*s < part {
			low = s
		} else {
			high = s
		}
	}
	return math.Ldexp(1+low, i/perDoubling)
}

// sketch is a histogram of times. It has memory for the buckets between the shortest and the
// longest time, in steps of growthStep. A bucket takes 2 bytes, or 4 once one has counted more
// than 65,535. The zero value is empty.
type sketch struct {
	// first is the bucket of the first element. One of small and large is nil.
	first int
	small []uint16
	large []uint32
	count uint64
	max   time.Duration
}

// observe counts a time n times. index is its bucket.
func (s *sketch) observe(d time.Duration, index int, n uint32) {
	s.count += uint64(n)
	s.max = max(s.max, d)
	if i := index - s.first; uint(i) < uint(len(s.small)) {
		if sum := uint32(s.small[i]) + n; sum <= math.MaxUint16 {
			s.small[i] = uint16(sum)
			return
		}
	} else if uint(i) < uint(len(s.large)) {
		s.large[i] += n
		return
	}
	s.add(index, n)
}

// growthStep is how many buckets a sketch is extended by, so that it rarely is.
const growthStep = 24

// add counts n times in a bucket. It extends the sketch, and widens its counts, if
// needed.
func (s *sketch) add(index int, n uint32) {
	length := len(s.small) + len(s.large)
	low := index / growthStep * growthStep
	if length == 0 {
		s.first = low
	}
	before, after := max(0, s.first-low), max(0, low+growthStep-s.first-length)
	if s.large != nil {
		s.large = slices.Concat(make([]uint32, before), s.large, make([]uint32, after))
	} else {
		s.small = slices.Concat(make([]uint16, before), s.small, make([]uint16, after))
	}
	s.first -= before
	i := index - s.first
	if s.large == nil {
		if sum := uint32(s.small[i]) + n; sum <= math.MaxUint16 {
			s.small[i] = uint16(sum)
			return
		}
		s.large = make([]uint32, len(s.small))
		for j, c := range s.small {
			s.large[j] = uint32(c)
		}
		s.small = nil
	}
	s.large[i] += n
}

// reset empties the sketch. It keeps memory that the next times will likely need.
func (s *sketch) reset() {
	if s.large != nil || len(s.small) > buckets/2 {
		*s = sketch{}
		return
	}
	clear(s.small)
	s.count, s.max = 0, 0
}

// size returns the memory that the sketch refers to, in bytes.
func (s *sketch) size() int { return 2*cap(s.small) + 4*cap(s.large) }

// tally is the sum of sketches.
type tally struct {
	// counts has room for the last growthStep of a sketch, so add needs no checks.
	counts [(buckets/growthStep + 1) * growthStep]uint64
	count  uint64
	max    time.Duration
}

// add adds a sketch.
func (t *tally) add(s *sketch) {
	for i, n := range s.small {
		t.counts[s.first+i] += uint64(n)
	}
	for i, n := range s.large {
		t.counts[s.first+i] += uint64(n)
	}
	t.count += s.count
	t.max = max(t.max, s.max)
}

// merge adds the tally o.
func (t *tally) merge(o *tally) {
	for i, n := range o.counts {
		t.counts[i] += n
	}
	t.count += o.count
	t.max = max(t.max, o.max)
}

// quantileBucket returns the bucket of the quantile q.
func (t *tally) quantileBucket(q float64) int {
	rank := max(1, uint64(math.Ceil(q*float64(t.count))))
	var seen uint64
	for i, n := range t.counts[:buckets] {
		if seen += n; seen >= rank {
			return i
		}
	}
	return buckets - 1
}

// quantiles returns quantiles in seconds. They are 0 if the tally is empty.
func (t *tally) quantiles() serverreport.Quantiles {
	if t.count == 0 {
		return serverreport.Quantiles{}
	}
	quantile := func(q float64) float64 { return min(bucketValues()[t.quantileBucket(q)], t.max.Seconds()) }
	return serverreport.Quantiles{Count: t.count, P50: quantile(0.5), P99: quantile(0.99), P999: quantile(0.999), Max: t.max.Seconds()}
}
