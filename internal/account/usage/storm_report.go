package usage

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// logStorm logs that a storm began or ended.
func (s *stormDetector) logStorm(message string, storm *serverreport.Storm, clients, group int) {
	s.cfg.Logger.Info(message, "userAgent", storm.UserAgent, "resource", storm.Resource, "clients", clients, "fleet", group,
		"requests", storm.Requests, "bytes", storm.Bytes, "pacePercent", s.cfg.PacePercent)
}

// addBytes adds bytes to a storm, if there is one.
func (s *stormDetector) addBytes(program, resource string, bytes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.mu.candidates[candidateKey{program, resource}]; c != nil && c.storm != nil {
		c.storm.Bytes += bytes
	}
}

// counts returns how many storms go on, and stormDetector.mu.paced.
func (s *stormDetector) counts(now time.Time) (going int, paced uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked(now)
	for _, c := range s.mu.candidates {
		if c.storm != nil {
			going++
		}
	}
	return going, s.mu.paced
}

// report returns the storms that go on or ended within keepPastStorms, the newest first, and
// stormDetector.mu.paced.
func (s *stormDetector) report(now time.Time) (all []serverreport.Storm, paced uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked(now)
	all = append([]serverreport.Storm{}, s.mu.past...)
	for _, c := range s.mu.candidates {
		if c.storm != nil {
			all = append(all, *c.storm)
		}
	}
	slices.SortFunc(all, func(a, b serverreport.Storm) int {
		return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.UserAgent, b.UserAgent), cmp.Compare(a.Resource, b.Resource))
	})
	for i := range all {
		// The clients are an estimate. Each has sent a request.
		all[i].Clients = min(all[i].Clients, int(all[i].Requests))
		all[i].Advice = adviseStorm(&all[i], now, s.cfg.PacePercent)
	}
	return all, s.mu.paced
}

// adviseStorm says what to do about a storm. pace is --pace-relists.
func adviseStorm(s *serverreport.Storm, now time.Time, pace float64) string {
	end := s.Ended
	if end.IsZero() {
		end = now
	}
	advice := fmt.Sprintf("%d of about %d clients %s listed %s again within %.0f s: restart them in smaller steps (maxUnavailable of a rolling update), let them wait a random time before they list and longer after each failure, and let them resume their watches instead of listing where they can.",
		s.Clients, s.Fleet, s.UserAgent, s.Resource, max(1, end.Sub(s.Began).Seconds()))
	if pace <= 0 {
		advice += " --pace-relists=10 would let a tenth of them list in a minute and tell the others when to come back."
	}
	return advice
}
