package source

import (
	"context"
	"fmt"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/millrace/millrace/internal/tier/lifetime"
	"github.com/millrace/millrace/internal/tier/scrub"
	"github.com/millrace/millrace/internal/tier/storage"
)

// knownFor is how many intervals a server is taken for ready that was. The Lease's own
// lifetime comes before it.
const knownFor = 3

// newScrubber makes the scrubber of a cluster, nil if nothing is to be checked. The caller
// holds the lock.
func (b *Backends) newScrubberLocked(opened *Backend) (*scrub.Scrubber, error) {
	if b.CheckInterval == 0 {
		return nil, nil
	}
	if b.mu.scrubMetrics == nil {
		var err error
		if b.mu.scrubMetrics, err = scrub.NewMetrics(legacyregistry.Register); err != nil {
			return nil, fmt.Errorf("register metrics of cache checks: %w", err)
		}
	}
	return scrub.New(scrub.Config{
		Client: opened.Client.KV, Cache: opened.Cache, Consistent: opened.Consistent, Prefix: storage.EtcdPrefix(b.Prefix, ""), OthersReady: b.othersReady,
		Interval: b.CheckInterval, Metrics: b.mu.scrubMetrics, Logger: b.Logger,
	}), nil
}

// othersReady reports whether another server is known that takes clients. Without Leases none
// is known. It forgets what was known if Leases cannot be read any more.
func (b *Backends) othersReady() bool {
	seen := b.othersReadyAt.Load()
	return seen != nil && time.Since(*seen) < knownFor*b.CheckInterval
}

// SetOthersReady notes whether another server takes clients.
func (b *Backends) SetOthersReady(ready bool) {
	var seen *time.Time
	if ready {
		now := time.Now()
		seen = &now
	}
	b.othersReadyAt.Store(seen)
}

// CheckCaches returns an error while objects in memory are known to be wrong, and another
// server takes clients. It is a check of readiness.
func (b *Backends) CheckCaches() error { return b.eachScrubber((*scrub.Scrubber).Check) }

// WrongCaches returns an error while objects in memory are known to be wrong.
func (b *Backends) WrongCaches() error { return b.eachScrubber((*scrub.Scrubber).Wrong) }

// eachScrubber returns the first error of a check of all scrubbers.
func (b *Backends) eachScrubber(check func(*scrub.Scrubber) error) error {
	if b.API != nil {
		return nil
	}
	for _, backend := range b.All() {
		if backend.Scrubber == nil {
			continue
		}
		if err := check(backend.Scrubber); err != nil {
			return err
		}
	}
	return nil
}

// Scrub checks all caches until the context ends.
func (b *Backends) Scrub(ctx context.Context) {
	if b.API != nil {
		return
	}
	for _, backend := range b.All() {
		if backend.Scrubber != nil {
			defer lifetime.RunUntilStopped(ctx, func(ctx context.Context) { _ = backend.Scrubber.Run(ctx) })()
		}
	}
	<-ctx.Done()
}
