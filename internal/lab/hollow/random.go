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

// place returns a number from 0 to 1.
func (r *random) place() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return float64(r.mu.source.Uint64()>>11) / (1 << 53)
}

// in returns a time of a range.
func (r *random) in(times agentprofile.Range) time.Duration { return times.Choose(r.place()) }

// between returns a time between two.
func (r *random) between(low, high time.Duration) time.Duration {
	return r.in(agentprofile.Range{Min: low, Max: high})
}
