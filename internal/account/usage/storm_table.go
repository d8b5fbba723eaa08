package usage

import (
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/account/distinct"
	"github.com/millrace/millrace/internal/account/serverreport"
)

// This file finds, makes and drops groups and candidates, whose numbers are bounded.

// groupLocked finds or makes the group of a program.
func (s *stormDetector) groupLocked(program string) *clientGroup {
	g := s.mu.groups[program]
	if g == nil {
		if len(s.mu.groups) >= maxGroups {
			delete(s.mu.groups, leastRecent(s.mu.groups, func(g *clientGroup) time.Time { return g.lastSeen }))
		}
		g = &clientGroup{hosts: distinct.NewSlidingCounter(groupWindow/2, 2), connections: distinct.NewSlidingCounter(connectionWindow/2, 2)}
		s.mu.groups[strings.Clone(program)] = g
	}
	return g
}

// candidateLocked finds or makes a candidate.
func (s *stormDetector) candidateLocked(key candidateKey) *candidateStorm {
	c := s.mu.candidates[key]
	if c == nil {
		if len(s.mu.candidates) >= maxCandidates {
			old := leastRecent(s.mu.candidates, func(c *candidateStorm) time.Time { return c.lastSeen })
			s.dropLocked(old, s.mu.candidates[old])
		}
		c = &candidateStorm{hosts: distinct.NewSlidingCounter(stormWindow/stormSteps, stormSteps), connections: distinct.NewSlidingCounter(stormWindow/stormSteps, stormSteps)}
		s.mu.candidates[candidateKey{strings.Clone(key.program), strings.Clone(key.resource)}] = c
	}
	return c
}

// dropLocked drops a candidate. If it has a storm, the storm ends.
func (s *stormDetector) dropLocked(key candidateKey, c *candidateStorm) {
	if c.storm != nil {
		s.endLocked(c)
	}
	delete(s.mu.candidates, key)
}

// leastRecent returns the least recently seen of 16 random keys: an approximation of
// LRU that needs no list.
func leastRecent[K comparable, V any](all map[K]V, lastSeen func(V) time.Time) (key K) {
	const samples = 16
	n := 0
	var oldest time.Time
	for k, v := range all {
		if at := lastSeen(v); n == 0 || at.Before(oldest) {
			key, oldest = k, at
		}
		if n++; n == samples {
			break
		}
	}
	return key
}

// forget drops the candidates of resources that are gone, and ends their storms.
func (s *stormDetector) forget(gone func(resource string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, c := range s.mu.candidates {
		if gone(key.resource) {
			s.dropLocked(key, c)
		}
	}
}

// sweepLocked ends storms that are over, and drops stale candidates and old storms.
func (s *stormDetector) sweepLocked(now time.Time) {
	for key, c := range s.mu.candidates {
		if c.storm != nil {
			s.evaluateLocked(key, c, now)
		}
		if c.storm == nil && c.stale(now) {
			delete(s.mu.candidates, key)
		}
	}
	s.mu.past = slices.DeleteFunc(s.mu.past, func(storm serverreport.Storm) bool { return now.Sub(storm.Ended) > keepPastStorms })
}
