package crd

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestGoneResourcesAreTakenTogether checks that resources which go one after another are
// taken together, and after some delays even if they never stop going.
func TestGoneResourcesAreTakenTogether(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		going int   // the number of calls before each of which one resource goes
		want  []int // the number of resources that each call returns
	}{
		{0, []int{0, 0}},
		{1, []int{0, 1, 0, 0}},
		{3, []int{0, 0, 0, 3, 0}},
		{maxForgetDelays + 2, []int{0, 0, 0, 0, 0, maxForgetDelays, 0, 0, 2, 0}},
	} {
		s := &Server{}
		s.mu.gone = map[schema.GroupResource]bool{}
		for call, want := range c.want {
			if call < c.going {
				s.mu.gone[schema.GroupResource{Resource: strconv.Itoa(call)}] = true
			}
			if got := len(s.takeGone()); got != want {
				t.Errorf("with %d going, call %d returns %d, want %d", c.going, call, got, want)
			}
		}
	}
}
