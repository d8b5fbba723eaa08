package testbed

import (
	"fmt"
	"slices"
	"testing"
)

func TestParseMetrics(t *testing.T) {
	var got []string
	ParseMetrics("# HELP go_goroutines of goroutines\ngo_goroutines_x 1\n# go_goroutines 2\ngo_goroutines 3\nn{a=\"x y\",b=\"{z}\"} 4.5\nm{} 1e3\nbroken\nn{a=\"x\"} NaNNY\n", func(m Metric) {
		got = append(got, fmt.Sprint(m.Name, " ", m.Label("a"), m.Label("b"), " ", m.Value))
	})
	if want := []string{"go_goroutines_x  1", "go_goroutines  3", "n x y{z} 4.5", "m  1000"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
