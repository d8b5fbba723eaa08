package render

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		name    string
		samples []time.Duration
		p       float64
		want    time.Duration
	}{
		{"none", nil, 50, 0},
		{"one", []time.Duration{7}, 99, 7},
		{"lower of two", []time.Duration{1, 2}, 50, 1},
		{"upper of two", []time.Duration{1, 2}, 51, 2},
		{"hundred p50", hundred, 50, 50},
		{"hundred p99", hundred, 99, 99},
		{"hundred max", hundred, 100, 100},
		{"hundred min", hundred, 0, 1},
		{"three p90", []time.Duration{1, 2, 3}, 90, 3},
	} {
		if got := Percentile(c.samples, c.p); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestSummarizeSorts(t *testing.T) {
	got := Summarize([]time.Duration{3 * time.Millisecond, time.Millisecond, 1500 * time.Microsecond})
	if want := (Latencies{P50: 1.5, P90: 3, P99: 3, Max: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
