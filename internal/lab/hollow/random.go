package hollow

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/tool/agentprofile"
)

// random chooses times. It is derived from a run's seed, and safe for concurrent use.
type random struct {
	mu struct {
		sync.Mutex
		source *rand.PCG
	}
}

// newRandom returns the source of one program: equal seeds and numbers give equal times.
func newRandom(seed, number uint64) *random {
	r := &random{}
	r.mu.source = rand.NewPCG(seed, number)
	return r
}

// fraction returns a number from 0 to 1, without 1.
func (r *random) fraction() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return float64(r.mu.source.Uint64()>>11) / (1 << 53)
}

// choose returns a time in a range.
func (r *random) choose(times agentprofile.Range) time.Duration { return times.Choose(r.fraction()) }

// chooseBetween returns a time from low to high.
func (r *random) chooseBetween(low, high time.Duration) time.Duration {
	return r.choose(agentprofile.Range{Min: low, Max: high})
}
