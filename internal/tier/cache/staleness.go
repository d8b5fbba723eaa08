package cache

import (
	"context"
	"sync"
	"time"
)

// Staleness lets a read be answered from a cache that could not be proven to be new. It is in
// the read's context, and the read finds in it how old the answer may be.
type Staleness struct {
	// Age bounds the age of the answer: every write that was acknowledged before is in it.
	// Zero means that the answer is proven to be new.
	Age time.Duration
}

type stalenessKey struct{}

// WithStaleness returns the context of a read that may be answered with a stale state.
func WithStaleness(ctx context.Context) (context.Context, *Staleness) {
	s := &Staleness{}
	return context.WithValue(ctx, stalenessKey{}, s), s
}

// StalenessFrom returns the Staleness of a read. It returns nil if the answer must be
// new.
func StalenessFrom(ctx context.Context) *Staleness {
	s, _ := ctx.Value(stalenessKey{}).(*Staleness)
	return s
}

// proofs knows for which time the cache is known to be complete. A check begins at a
// time and finds a revision. Once the cache has reached the revision, it has every write
// that was acknowledged before that time.
//
// Checks may come each millisecond, and a bookmark that ends them once a minute. So only
// some are kept: at most maxChecks, checkSpacing apart.
type proofs struct {
	mu struct {
		sync.Mutex
		// provenAt is when the newest check began whose revision was reached. Zero means
		// that there is none.
		provenAt time.Time
		// checks are the checks whose revision is not reached, the oldest first.
		checks []check
	}
}

// check is one read of the source's revision.
type check struct {
	began    time.Time
	revision int64
}

const (
	maxChecks    = 256
	checkSpacing = time.Second / 2
)

// add records a check. reached is the cache's progress.
func (p *proofs) add(c check, reached int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settleLocked(reached)
	if c.revision <= reached {
		p.mu.provenAt = c.began
		return
	}
	n := len(p.mu.checks)
	if n > 0 && c.revision < p.mu.checks[n-1].revision {
		p.mu.checks, n = nil, 0 // the kept checks are of another history
	}
	if n == maxChecks || n > 0 && c.began.Sub(p.mu.checks[n-1].began) < checkSpacing {
		return
	}
	p.mu.checks = append(p.mu.checks, c)
}

// settleLocked ends the checks whose revision is reached.
func (p *proofs) settleLocked(reached int64) {
	for len(p.mu.checks) > 0 && p.mu.checks[0].revision <= reached {
		p.mu.provenAt = p.mu.checks[0].began
		p.mu.checks = p.mu.checks[1:]
	}
}

// newest returns provenAt for a cache whose progress is reached.
func (p *proofs) newest(reached int64) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settleLocked(reached)
	return p.mu.provenAt
}

// Age returns how old the cache is at most. It returns false if that is not known. Only reads
// of the source's revision are known of: while there are none, the age grows.
func (c *Consistent) Age() (age time.Duration, ok bool) {
	at := c.proofs.newest(c.progress.Revision())
	return time.Since(at), !at.IsZero()
}
