package verify

import (
	"math/rand/v2"
	"sync"
)

// requestCycle returns requests in one random order, again and again. It is safe for concurrent
// use.
type requestCycle struct {
	mu struct {
		sync.Mutex
		rest []Request // of this round
	}
	all []Request
}

// newRequestCycle returns a cycle of requests. It shuffles them in place and keeps the slice.
func newRequestCycle(all []Request, random *rand.Rand) *requestCycle {
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return &requestCycle{all: all}
}

// next returns the next request.
func (c *requestCycle) next() Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.rest) == 0 {
		c.mu.rest = c.all
	}
	req := c.mu.rest[0]
	c.mu.rest = c.mu.rest[1:]
	return req
}
