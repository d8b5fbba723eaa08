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

// othersReadyIntervals is for how many check intervals another server counts as ready after it
// was last seen ready. Its Lease expires on its own before that, so this matters only while
// Leases cannot be read.
const othersReadyIntervals = 3

// newScrubberLocked makes the scrubber of a cluster. It returns nil if nothing is to be checked.
func (e *Etcd) newScrubberLocked(opened *Backend) (*scrub.Scrubber, error) {
	if e.cfg.CheckInterval == 0 {
		return nil, nil
	}
	if e.mu.scrubMetrics == nil {
		var err error
		if e.mu.scrubMetrics, err = scrub.NewMetrics(legacyregistry.Register); err != nil {
			return nil, fmt.Errorf("register metrics of cache checks: %w", err)
		}
	}
	return scrub.New(scrub.Config{
		Client: opened.Client.KV, Cache: opened.Cache, Consistent: opened.Consistent, Prefix: storage.EtcdPrefix(e.cfg.Prefix, ""), OthersReady: e.othersReady,
		Interval: e.cfg.CheckInterval, Metrics: e.mu.scrubMetrics, Logger: e.b.Logger,
	}), nil
}

// othersReady reports whether another server is known that takes clients. Without Leases none
// is known. What SetOthersReady has recorded expires after othersReadyIntervals.
func (e *Etcd) othersReady() bool {
	seen := e.othersReadyAt.Load()
	return seen != nil && time.Since(*seen) < othersReadyIntervals*e.cfg.CheckInterval
}

// SetOthersReady records whether another server takes clients now.
func (e *Etcd) SetOthersReady(ready bool) {
	var seen *time.Time
	if ready {
		now := time.Now()
		seen = &now
	}
	e.othersReadyAt.Store(seen)
}

// CacheReadyError implements Source. It returns an error while a cache is known to be wrong and
// another server takes clients.
func (e *Etcd) CacheReadyError() error { return e.eachScrubber((*scrub.Scrubber).ReadyError) }

// CacheError returns an error while a cache is known to be wrong, whether or not other
// servers take clients.
func (e *Etcd) CacheError() error { return e.eachScrubber((*scrub.Scrubber).CacheError) }

// eachScrubber calls check with the scrubbers, up to the first error, and returns that
// error.
func (e *Etcd) eachScrubber(check func(*scrub.Scrubber) error) error {
	for _, backend := range e.All() {
		if backend.Scrubber == nil {
			continue
		}
		if err := check(backend.Scrubber); err != nil {
			return err
		}
	}
	return nil
}

// RunScrubbers implements Source. It returns when the context has ended and all scrubbers
// have returned.
func (e *Etcd) RunScrubbers(ctx context.Context) {
	for _, backend := range e.All() {
		if backend.Scrubber != nil {
			// Run returns the error of the context, and no other. The deferred calls wait for it.
			defer lifetime.Start(ctx, func(ctx context.Context) { _ = backend.Scrubber.Run(ctx) })()
		}
	}
	<-ctx.Done()
}
