package crd

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestGoneTogether says that resources which go one after another are forgotten
// together, and in time if they never stop.
func TestGoneTogether(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		going int // looks before each of which one goes
		want  []int
	}{
		{0, []int{0, 0}},
		{1, []int{0, 1, 0, 0}},
		{3, []int{0, 0, 0, 3, 0}},
		{maxForgetDelays + 2, []int{0, 0, 0, 0, 0, maxForgetDelays, 0, 0, 2, 0}},
	} {
		s := &Server{}
		s.mu.gone = map[schema.GroupResource]bool{}
		for look, want := range c.want {
			if look < c.going {
				s.mu.gone[schema.GroupResource{Resource: strconv.Itoa(look)}] = true
			}
			if got := len(s.takeGone()); got != want {
				t.Errorf("of %d the look %d forgets %d, want %d", c.going, look, got, want)
			}
		}
	}
}
