package dashboard

import (
	"sync"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// Source makes the reports. A nil function is of something that the server does
// not measure: its path is not found. They are called from any goroutine.
type Source struct {
	SLO      func() report.SLOReport
	Watchers func() report.WatchersReport
	Lists    func() report.ListsReport
	Memory   func() report.MemoryReport
	CRDs     func() report.CRDsReport
	Feed     func() report.FeedReport
}

// reports are the source's by their name in the path.
func (s *Source) reports(now func() time.Time) map[string]func() any {
	made := map[string]func() any{}
	add(made, now, "slo", s.SLO)
	add(made, now, "watchers", s.Watchers)
	add(made, now, "lists", s.Lists)
	add(made, now, "memory", s.Memory)
	add(made, now, "crds", s.CRDs)
	add(made, now, "feed", s.Feed)
	return made
}

// sharing is how long a report is good for all who ask: some of them walk
// everything that is cached.
const sharing = 500 * time.Millisecond

func add[T any](to map[string]func() any, now func() time.Time, name string, make func() T) {
	if make != nil {
		to[name] = (&shared[T]{make: make, now: now}).get
	}
}

// shared makes a report once for all who ask at about the same time.
type shared[T any] struct {
	make func() T
	now  func() time.Time

	mu struct {
		sync.Mutex
		made   T
		madeAt time.Time
	}
}

// get returns a report that must not be changed.
func (s *shared[T]) get() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); s.mu.madeAt.IsZero() || now.Sub(s.mu.madeAt) >= sharing || now.Before(s.mu.madeAt) {
		s.mu.made = s.make()
		// A report that took long is as old as its end, so that makers of slow ones rest.
		s.mu.madeAt = s.now()
	}
	return s.mu.made
}
