package right

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// MinTTL is the least Proof.Holds. It leaves a proof the time of some round trips.
	MinTTL = time.Second
	// proofsPerTTL is how often RBAC objects are proven within the time for which a proof
	// holds. One proof that is late or fails does not end the trust.
	proofsPerTTL = 4
)

// Proof keeps a proof of how new the RBAC objects are that the replica holds.
type Proof struct {
	// Prove returns nil if the objects are as new as the upstream's objects were when the
	// call began.
	Prove func(context.Context) error
	// Holds is how long a proof holds, from its beginning. It must be positive.
	Holds time.Duration
	// provenAt is when the newest proof began. It is nil before the first one.
	provenAt atomic.Pointer[time.Time]
}

// Current reports whether a proof holds.
func (p *Proof) Current() bool {
	at := p.provenAt.Load()
	return at != nil && time.Since(*at) < p.Holds
}

// Run proves the objects again and again until the context ends.
func (p *Proof) Run(ctx context.Context) {
	ticker := time.NewTicker(p.Holds / proofsPerTTL)
	defer ticker.Stop()
	for {
		began := time.Now()
		proving, cancel := context.WithTimeout(ctx, p.Holds)
		if p.Prove(proving) == nil {
			p.provenAt.Store(&began)
		}
		cancel()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
