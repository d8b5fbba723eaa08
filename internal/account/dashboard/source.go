package dashboard

import (
	"sync"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// Source has the functions that make the reports. A nil function means that the server has no such
// report: its path is not found. The functions are called by any goroutine, one call of each at a
// time.
type Source struct {
	SLO      func() serverreport.SLOReport
	Watchers func() serverreport.WatchersReport
	Lists    func() serverreport.ListsReport
	Memory   func() serverreport.MemoryReport
	CRDs     func() serverreport.CRDsReport
	Feed     func() serverreport.FeedReport
	Replica  func() serverreport.ReplicaReport
}

// reports returns functions that return the reports, by their names in the path. A report is up to
// reuseFor old.
func (s *Source) reports(now func() time.Time) map[string]func() any {
	all := map[string]func() any{}
	add(all, now, "slo", s.SLO)
	add(all, now, "watchers", s.Watchers)
	add(all, now, "lists", s.Lists)
	add(all, now, "memory", s.Memory)
	add(all, now, "crds", s.CRDs)
	add(all, now, "feed", s.Feed)
	add(all, now, "replica", s.Replica)
	return all
}

// reuseFor is how long a report is used again. Some reports walk all that is cached.
const reuseFor = 500 * time.Millisecond

// add adds a report to a map, unless build is nil.
func add[T any](byName map[string]func() any, now func() time.Time, name string, build func() T) {
	if build != nil {
		byName[name] = (&sharedReport[T]{build: build, now: now}).get
	}
}

// sharedReport makes a report once for the requests of each reuseFor. A request that comes
// while the report is made waits for it.
type sharedReport[T any] struct {
	build func() T
	now   func() time.Time

	mu struct {
		sync.Mutex
		report T
		madeAt time.Time
	}
}

// get returns the report. The caller must not change it.
func (s *sharedReport[T]) get() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); s.mu.madeAt.IsZero() || now.Sub(s.mu.madeAt) >= reuseFor || now.Before(s.mu.madeAt) {
		s.mu.report = s.build()
		// The age of a report counts from when it was finished. So a report that takes long
		// to make is not made all the time.
		s.mu.madeAt = s.now()
	}
	return s.mu.report
}
