package slo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// distributions draw times.
var distributions = map[string]func(*rand.Rand) time.Duration{
	"normal":  func(r *rand.Rand) time.Duration { return time.Duration(math.Abs(20e6 + 3e6*r.NormFloat64())) },
	"long":    func(r *rand.Rand) time.Duration { return time.Duration(2e6 * math.Exp(1.5*r.NormFloat64())) },
	"uniform": func(r *rand.Rand) time.Duration { return time.Duration(1e3 + r.Float64()*3e12) },
	"two": func(r *rand.Rand) time.Duration {
		if r.IntN(50) == 0 {
			return time.Duration(1.5e9 + 1e8*r.Float64())
		}
		return time.Duration(4e5 + 1e5*r.Float64())
	},
}

// exact returns the quantile by the nearest-rank method.
func exact(sorted []time.Duration, q float64) float64 {
	return sorted[max(1, int(math.Ceil(q*float64(len(sorted)))))-1].Seconds()
}

func TestQuantilesAreWithinAHundredth(t *testing.T) {
	for name, draw := range distributions {
		for _, n := range []int{1, 10, 1000, 300_000} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, uint64(n)))
				var parts [3]sketch
				times := make([]time.Duration, n)
				for i := range times {
					times[i] = draw(r)
					parts[i%3].observe(times[i], bucket(times[i]), 1)
				}
				var sum tally
				for i := range parts {
					sum.add(&parts[i])
				}
				slices.Sort(times)
				got := sum.quantiles()
				for q, value := range map[float64]float64{0.5: got.P50, 0.99: got.P99, 0.999: got.P999} {
					if want := exact(times, q); math.Abs(value-want) > 0.0101*want {
						t.Errorf("quantile %v is %v, want %v within 1 %%", q, value, want)
					}
				}
				if got.Max != times[n-1].Seconds() || got.Count != uint64(n) {
					t.Errorf("max %v and count %v, want %v and %v", got.Max, got.Count, times[n-1].Seconds(), n)
				}
			})
		}
	}
}

func TestSketchTakesLittle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s sketch
	for range 1_000_000 {
		d := time.Duration(r.Float64() * 4e12)
		s.observe(d, bucket(d), 1)
	}
	if s.size() > 4*buckets+8*growthStep {
		t.Errorf("a sketch of a million times takes %d bytes", s.size())
	}
	if s.count != 1_000_000 {
		t.Errorf("the sketch counted %d", s.count)
	}
}

func TestExtremesAreCounted(t *testing.T) {
	var s sketch
	for _, d := range []time.Duration{0, time.Nanosecond, 100 * time.Hour} {
		s.observe(d, bucket(d), 70_000)
	}
	var sum tally
	sum.add(&s)
	if got := sum.quantiles(); got.Count != 210_000 || got.P50 != 0 || got.Max != 360_000 || got.P99 < 4000 {
		t.Errorf("got %+v", got)
	}
}

func TestSlidingMinuteForgets(t *testing.T) {
	var w slidingMinute[sketch]
	count := func(at time.Duration) uint64 {
		var sum tally
		w.eachSlot(at, fineSlot, sum.add)
		return sum.count
	}
	for at := time.Duration(0); at < 5*time.Minute; at += time.Second {
		w.slotFor(at, fineSlot, (*sketch).reset).observe(time.Millisecond, bucket(time.Millisecond), 1)
		if n, most := count(at), uint64(at/time.Second)+1; n < min(most, 60) || n > min(most, 70) {
			t.Fatalf("after %v the last minute has %d events", at, n)
		}
	}
	if n := count(6*time.Minute + fineSlot); n != 0 {
		t.Errorf("%d events are a minute old", n)
	}
}

func TestBurn(t *testing.T) {
	var b burnCounter
	for at := time.Duration(0); at < 6*time.Hour; at += 10 * time.Second {
		m := b.minuteFor(at)
		m.all += 100
		if at >= 6*time.Hour-10*time.Minute {
			m.late += 2
		}
	}
	var sum burnSum
	sum.add(&b, 6*time.Hour-time.Second)
	got := sum.burn()
	if got.FiveMinutes != 2 || math.Abs(got.Hour-2.0/6) > 1e-9 || math.Abs(got.SixHours-2.0/36) > 1e-9 {
		t.Errorf("burn is %+v", got)
	}
	sum = burnSum{}
	sum.add(&b, 13*time.Hour)
	if got := sum.burn(); got != (serverreport.Burn{}) {
		t.Errorf("burn is %+v after a silence", got)
	}
}
