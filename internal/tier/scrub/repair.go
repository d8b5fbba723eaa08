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
	// still differs is given up and served all the same. In that case etcd itself gives two
	// answers, to all servers alike, or does not let the resource be loaded. Nothing would be
	// won if all servers left the balancer.
	maxAttempts = 3
	// minRetryPause is the time between the first two loads. It doubles.
	minRetryPause = time.Second
	// minNotReady is for how long at least a server stays not ready, so that a balancer sees
	// it. Half of Config.Interval replaces it if that is less.
	minNotReady = 10 * time.Second
	// minGivenUpPause is the time for which a resource is left alone that was given up. The
	// time doubles up to maxGivenUpPause each time that the resource is given up again, because
	// each load ends the resource's watches.
	minGivenUpPause = time.Minute
	maxGivenUpPause = 4 * time.Hour
)

// repair loads a resource again, up to maxAttempts times. Meanwhile, and for some seconds at
// least, the resource counts as wrong. found are some of the differences. values says that the
// differences may be in values alone: values are then compared after each load, too.
//
// While a resource is given up, repair only adds to Metrics.
func (s *Scrubber) repair(ctx context.Context, r *cache.Resource, found []cache.Difference, values bool) {
	gr := nameOf(r)
	s.cfg.Metrics.mismatches.WithLabelValues(gr.Group, gr.Resource).Inc()
	if s.isGivenUp(r, time.Now()) {
		return
	}
	s.setWrong(r, true)
	// A balancer asks every few seconds, and must see that the server is not ready. The load may
	// take less.
	notReady := time.NewTimer(min(s.cfg.Interval/2, minNotReady))
	defer func() {
		select {
		case <-notReady.C:
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

// isGivenUp reports whether a resource is given up at now, and so to be left alone.
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
	return p.length
}

// doublingPause is a time in which something is not done again. The zero value is over.
type doublingPause struct {
	until time.Time
	// length is how long the pause is.
	length time.Duration
}

// longer returns a pause that begins now and is twice as long, within bounds.
func (p doublingPause) longer(now time.Time, shortest, longest time.Duration) doublingPause {
	p.length = min(max(shortest, 2*p.length), longest)
	p.until = now.Add(p.length)
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
