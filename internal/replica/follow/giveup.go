package follow

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file ends feeds. The definition of a resource has changed, the upstream refuses the
// resource or is silent about it, nobody reads it, or memory is short.

// Outdated must be called when a resource is served in another way from now on: its definition
// or its server has changed or is gone. Reads are passed on until the upstream can be expected
// to have made the change too. Then the resource is loaded again, if it was followed or is
// named.
//
// Watches end with that load, about a second later, as watches at the upstream do.
func (s *Resources) Outdated(gr schema.GroupResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.mu.byKey[Key{GroupResource: gr}]; f != nil {
		s.outdateLocked(f)
	}
}

// endedEarly is called when the upstream has ended a watch in order, long before its time. That may
// be soon after a change of a definition. Then the watch and the load before it came from a server
// that did not serve the definition yet.
func (s *Resources) endedEarly(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	for _, f := range s.mu.byKey {
		if r := f.run.Load(); r != nil && r.version.path() == path && !f.settledAt.IsZero() && now.Sub(f.settledAt) < unsettledPeriod {
			s.outdateLocked(f)
		}
	}
}

// outdateBuiltIn is Outdated for all built-in resources that are followed.
func (s *Resources) outdateBuiltIn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.mu.byKey {
		if r := f.run.Load(); r != nil && !f.request.Custom {
			s.outdateLocked(f)
		}
	}
}

// outdateLocked is Outdated of a resource.
func (s *Resources) outdateLocked(f *FollowedResource) {
	f.refused.Store(nil)
	f.settledAt = s.cfg.Clock.Now().Add(settlePeriod)
	f.outdated = true
	if s.endLocked(f) {
		f.again = true
		f.backend.Cache.Suspend()
		f.freeAt = f.settledAt.Add(freePeriod)
		s.cfg.Checkpoints.remove(f.key)
	}
}

// giveUpLocked ends the feed and the watches of a resource, and removes its checkpoint. why is
// "" if the resource may be followed again immediately.
func (s *Resources) giveUpLocked(f *FollowedResource, why Refusal, now time.Time) {
	if !s.endLocked(f) {
		return
	}
	f.backend.Cache.Unload()
	f.freeAt = now.Add(freePeriod)
	if why != "" {
		retry := retryPeriod
		if why == silent {
			retry = silentRetryPeriod
		}
		f.refused.Store(&refusalUntil{why, now.Add(retry)})
	}
	s.cfg.Checkpoints.remove(f.key)
}

// sweepUntil looks at all resources again and again until the context ends.
func (s *Resources) sweepUntil(ctx context.Context) {
	ticker := s.cfg.Clock.NewTicker(sweepPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			s.sweep()
		case <-ctx.Done():
			return
		}
	}
}

// sweep gives up resources that are silent, refused or unread, and those for which there is no
// memory. It follows resources again that were given up for a while, or have settled.
func (s *Resources) sweep() {
	away := s.Healthy() != nil
	for _, key := range s.sweepOnce(away, s.cfg.Clock.Now()) {
		s.followAgain(key)
	}
}

// sweepOnce does sweep's work under the lock, and returns what is to be followed again. away
// says that no feed is healthy.
func (s *Resources) sweepOnce(away bool, now time.Time) (again []Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isSilent := func(f *FollowedResource) bool {
		since := f.BrokenSince()
		return !away && !since.IsZero() && now.Sub(since) > maxBroken
	}
	// If the feed of definitions is silent, custom resources may have changed unnoticed.
	described := s.mu.byKey[Key{GroupResource: definitions}]
	undescribed := described != nil && isSilent(described)
	for key, f := range s.mu.byKey {
		if !f.freeAt.IsZero() && now.After(f.freeAt) {
			f.freeAt = time.Time{}
			f.backend.Cache.Free()
		}
		switch read := time.Unix(0, f.readAt.Load()); {
		case f.currentFeed() == nil:
			if (f.named || f.again) && f.refusal(now) == "" && !now.Before(f.settledAt) {
				f.again = false
				again = append(again, key)
			}
		case f.request.Needed:
		case !away && isRefused(f.currentFeed()) && f.backend.Cache.Ready() != nil:
			s.cfg.Logger.Warn("A resource cannot be followed, because the upstream refuses it; its reads are passed on: let the user of --kubeconfig list and watch it, or name it in --exclude",
				"resource", key.String(), "err", f.Healthy(), "retryIn", retryPeriod)
			s.giveUpLocked(f, refusedByUpstream, now)
		case isSilent(f) || f.request.Custom && undescribed:
			s.cfg.Logger.Warn("A resource is given up, because its feed is broken while the upstream answers others; its watches end, and its reads are passed on",
				"resource", key.String(), "err", f.Healthy())
			why := silent
			if isRefused(f.currentFeed()) {
				why = refusedByUpstream
			}
			s.giveUpLocked(f, why, now)
		case s.cfg.DropAfter > 0 && !f.named && now.Sub(read) > s.cfg.DropAfter:
			s.cfg.Logger.Info("A resource is not followed any more, because nobody has read it for long", "resource", key.String(), "since", read)
			s.giveUpLocked(f, "", now)
		}
	}
	if s.isFullLocked() {
		s.shrinkLocked(now)
	}
	return again
}

// heldLocked returns the bytes of all objects that are held or being loaded, as stored.
func (s *Resources) heldLocked() (sum int64) {
	for _, f := range s.mu.byKey {
		sum += f.bytes()
	}
	return sum
}

func (s *Resources) isFullLocked() bool {
	return s.cfg.MaxBytes > 0 && s.heldLocked() >= s.cfg.MaxBytes
}

// loadGrew gives a resource up whose load does not fit into MaxBytes, unless it is named.
func (s *Resources) loadGrew(f *FollowedResource) {
	if s.cfg.MaxBytes == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !f.named && s.isFullLocked() {
		s.giveUpForMemoryLocked(f, s.cfg.Clock.Now())
	}
}

// shrinkLocked gives up resources that are not named, the longest unread first, until the rest
// fits into MaxBytes.
func (s *Resources) shrinkLocked(now time.Time) {
	var droppable []*FollowedResource
	for _, f := range s.mu.byKey {
		if !f.named && f.run.Load() != nil {
			droppable = append(droppable, f)
		}
	}
	slices.SortFunc(droppable, func(a, b *FollowedResource) int { return cmp.Compare(a.readAt.Load(), b.readAt.Load()) })
	over := s.heldLocked() - s.cfg.MaxBytes
	for _, f := range droppable {
		if over < 0 {
			return
		}
		over -= f.bytes()
		s.giveUpForMemoryLocked(f, now)
	}
}

func (s *Resources) giveUpForMemoryLocked(f *FollowedResource, now time.Time) {
	s.cfg.Logger.Warn("A resource is given up, because the objects that are followed take more memory than they may; its reads are passed on: name what is to be followed with --follow, or raise --follow-bytes",
		"resource", f.key.String(), "bytes", f.bytes(), "most", s.cfg.MaxBytes)
	s.giveUpLocked(f, overFollowBytes, now)
}
