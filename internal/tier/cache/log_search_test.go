package cache

import (
	"math/rand/v2"
	"testing"

	"k8s.io/utils/clock"
)

// TestFirstAbove compares the search with a walk over all events, for logs of each length
// up to some powers of two. Several events share a revision. Some searches are for
// revisions below the first event and above the last.
func TestFirstAbove(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for length := range 140 {
		l := newLog(newBounds(&Config{}), 0, clock.RealClock{})
		revision := int64(10)
		for range length {
			l.mu.events = append(l.mu.events, timedEvent{Event: Event{Revision: revision}})
			revision += random.Int64N(3)
		}
		for rv := int64(8); rv <= revision+2; rv++ {
			want := 0
			for want < length && l.mu.events[want].Revision <= rv {
				want++
			}
			if got := l.firstAboveLocked(rv); got != want {
				t.Fatalf("of %d events, the first above revision %d is %d, want %d", length, rv, got, want)
			}
		}
	}
}
