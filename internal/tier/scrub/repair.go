package scrub

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/tier/cache"
)

const (
	// maxAttempts is the number of loads, successful or not, after which a resource that
	// still differs is given up and served all the same. Then etcd itself gives two answers,
	// on all servers alike, or does not let the resource be loaded. Nothing would be won if
	// all servers left the balancer.
	maxAttempts = 3
	// minRetryPause is the time between the first two loads. It doubles.
	minRetryPause = time.Second
	// maxSeenPause bounds the time for which a server stays not ready, so that a balancer
	// sees it.
	maxSeenPause = 10 * time.Second
	// minGivenUpPause is the time for which a resource is left alone that was given up. It
	// doubles up to maxGivenUpPause each time that it is given up again, because each load
	// ends its watches.
	minGivenUpPause = time.Minute
	maxGivenUpPause = 4 * time.Hour
)

// repair loads a resource again. Meanwhile, and for some seconds at least, the server
// counts it as wrong. found are some of the differences. values says that the differences
// may be in values alone. Then values decide whether the repair has helped.
//
// A resource that was given up is only counted until its pause is over.
func (s *Scrubber) repair(ctx context.Context, r *cache.Resource, found []cache.Difference, values bool) {
	gr := nameOf(r)
	s.cfg.Metrics.mismatches.WithLabelValues(gr.Group, gr.Resource).Inc()
	if s.isGivenUp(r, time.Now()) {
		return
	}
	s.setWrong(r, true)
	// A balancer asks every few seconds, and must see it. The load may take less.
	seen := time.NewTimer(min(s.cfg.Interval/2, maxSeenPause))
	defer func() {
		select {
		case <-seen.C:
		case <-ctx.Done():
		}
		s.setWrong(r, false)
	}()
	s.cfg.Logger.Error("The cache differs from etcd. The resource is loaded again, and its watches end with 410. The server is not ready meanwhile if it knows of another one that is",
		"resource", gr.String(), "objects", names(found))
	pause := minRetryPause
	for attempt := 1; ; attempt++ {
		still, err := s.replace(ctx, r, values)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && len(still) == 0 && r.HoldsDigest():
			s.cfg.Logger.Info("The cache is what etcd has again", "resource", gr.String())
			return
		case attempt == maxAttempts:
			s.cfg.Logger.Error("The cache could not be made equal to etcd, and is served all the same: check whether etcd's members agree, and whether they answer",
				"resource", gr.String(), "objects", names(still), "err", err, "nextLoadIn", s.giveUp(r, time.Now()))
			return
		case err != nil:
			s.cfg.Logger.Warn("Could not load a resource again; it will be retried", "resource", gr.String(), "err", err)
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
		}
	}
}

// replace loads a resource again, and returns what still differs.
func (s *Scrubber) replace(ctx context.Context, r *cache.Resource, values bool) ([]cache.Difference, error) {
	if err := s.reload(ctx, r); err != nil {
		return nil, err
	}
	return s.compareResource(ctx, r, values)
}

// isGivenUp reports whether a resource is to be left alone.
func (s *Scrubber) isGivenUp(r *cache.Resource, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.mu.givenUp, func(_ string, p doublingPause) bool { return now.Sub(p.until) > 2*maxGivenUpPause })
	return now.Before(s.mu.givenUp[r.Prefix()].until)
}

// giveUp leaves a resource alone for some time, and returns for how long.
func (s *Scrubber) giveUp(r *cache.Resource, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.mu.givenUp[r.Prefix()].longer(now, minGivenUpPause, maxGivenUpPause)
	s.mu.givenUp[r.Prefix()] = p
	return p.next
}

// doublingPause is a time in which something is not done again.
type doublingPause struct {
	until time.Time
	next  time.Duration
}

// longer returns the pause that follows, from now on.
func (p doublingPause) longer(now time.Time, shortest, longest time.Duration) doublingPause {
	p.next = min(max(shortest, 2*p.next), longest)
	p.until = now.Add(p.next)
	return p
}

func names(found []cache.Difference) string {
	var list []string
	for _, d := range found[:min(len(found), maxNamed)] {
		list = append(list, d.String())
	}
	return strings.Join(list, "; ")
}

// reload replaces the objects of a resource by the objects of etcd.
func (s *Scrubber) reload(ctx context.Context, r *cache.Resource) error {
	into := s.cfg.Cache.BeginReload(r)
	page := page{values: true}
	for !page.last {
		resp, err := s.read(ctx, r, &page)
		if err != nil {
			return err
		}
		if page.revision == 0 {
			page.revision = resp.Header.Revision
		}
		into.Add(ctx, etcdfeed.Objects(resp.Kvs))
		page.from = page.keys.End
	}
	if err := s.waitFor(ctx, page.revision); err != nil {
		return err
	}
	return into.End(page.revision)
}
