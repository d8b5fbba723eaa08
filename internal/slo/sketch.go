package slo

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// A sketch counts times in buckets whose width grows with the time, so a quantile is
// off by 1 % at most: 36 buckets for each doubling, from a microsecond to 71 minutes.
// The logarithm is interpolated by a cubic, as in DDSketch (Masson, Rim, Lee, VLDB
// 2019): exact at powers of two, never steeper than 1.01 times the real one.
const (
	perDoubling = 36
	doublings   = 32
	// buckets counts one for less than a microsecond, which is the first.
	buckets = 1 + doublings*perDoubling

	cubicA, cubicB, cubicC = 6.0 / 35, -3.0 / 5, 10.0 / 7
)

// bucket returns where a time is counted.
func bucket(d time.Duration) int {
	if d < time.Microsecond {
		return 0
	}
	bits := math.Float64bits(float64(d) / float64(time.Microsecond))
	exponent := int(bits>>52) - 1023
	s := math.Float64frombits(bits&(1<<52-1)|1023<<52) - 1
	return min(1+exponent*perDoubling+int(((cubicA*s+cubicB)*s+cubicC)*s*perDoubling), buckets-1)
}

// middles are what stands for the times of a bucket, in seconds: as far, by its own
// measure, from the smallest as from the largest of them.
var middles = sync.OnceValue(func() *[buckets]float64 {
	var table [buckets]float64
	for i := 1; i < buckets; i++ {
		low, high := bound(i-1), bound(i)
		table[i] = 2 * low * high / (low + high) / 1e6
	}
	return &table
})

// bound is the smallest time of the bucket i+1, in microseconds.
func bound(i int) float64 {
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

// sketch is the times of one window. It takes what its buckets between the shortest
// and the longest time take: 2 bytes each, 4 when one is counted more than 65,535
// times. The zero value is ready.
type sketch struct {
	// small or large begin at the bucket first.
	first int
	small []uint16
	large []uint32
	count uint64
	max   time.Duration
}

// observe counts a time n times, whose bucket is at.
func (s *sketch) observe(d time.Duration, at int, n uint32) {
	s.count += uint64(n)
	s.max = max(s.max, d)
	if i := at - s.first; uint(i) < uint(len(s.small)) {
		if sum := uint32(s.small[i]) + n; sum <= math.MaxUint16 {
			s.small[i] = uint16(sum)
			return
		}
	} else if uint(i) < uint(len(s.large)) {
		s.large[i] += n
		return
	}
	s.add(at, n)
}

// growth is by how many buckets a sketch grows.
const growth = 24

func (s *sketch) add(at int, n uint32) {
	length := len(s.small) + len(s.large)
	low := at / growth * growth
	if length == 0 {
		s.first = low
	}
	before, behind := max(0, s.first-low), max(0, low+growth-s.first-length)
	if s.large != nil {
		s.large = slices.Concat(make([]uint32, before), s.large, make([]uint32, behind))
	} else {
		s.small = slices.Concat(make([]uint16, before), s.small, make([]uint16, behind))
	}
	s.first -= before
	i := at - s.first
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

// reset forgets the times and keeps the room for others like them.
func (s *sketch) reset() {
	if s.large != nil || len(s.small) > buckets/2 {
		*s = sketch{}
		return
	}
	clear(s.small)
	s.count, s.max = 0, 0
}

// size is what the sketch takes beside itself, in bytes.
func (s *sketch) size() int { return 2*cap(s.small) + 4*cap(s.large) }

// tally is the sum of sketches.
type tally struct {
	// counts has room for a sketch's last growth.
	counts [(buckets/growth + 1) * growth]uint64
	count  uint64
	max    time.Duration
}

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

// rank returns the bucket that the q-th part of the times ends in.
func (t *tally) rank(q float64) int {
	want := max(1, uint64(math.Ceil(q*float64(t.count))))
	var seen uint64
	for i, n := range t.counts[:buckets] {
		if seen += n; seen >= want {
			return i
		}
	}
	return buckets - 1
}

// quantiles are in seconds. They are 0 without a time.
func (t *tally) quantiles() report.Quantiles {
	if t.count == 0 {
		return report.Quantiles{}
	}
	at := func(q float64) float64 { return min(middles()[t.rank(q)], t.max.Seconds()) }
	return report.Quantiles{Count: t.count, P50: at(0.5), P99: at(0.99), P999: at(0.999), Max: t.max.Seconds()}
}
