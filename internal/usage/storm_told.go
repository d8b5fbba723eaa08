package usage

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// fleetLocked finds or makes a fleet.
func (s *storms) fleetLocked(kind string) *fleet {
	f := s.mu.fleets[kind]
	if f == nil {
		if len(s.mu.fleets) >= maxFleets {
			delete(s.mu.fleets, oldest(s.mu.fleets, func(f *fleet) time.Time { return f.seen }))
		}
		f = &fleet{hosts: newLately(fleetWindow/2, 2), connections: newLately(connectionWindow/2, 2)}
		s.mu.fleets[strings.Clone(kind)] = f
	}
	return f
}

// gatheringLocked finds or makes a gathering.
func (s *storms) gatheringLocked(key gatheringKey) *gathering {
	g := s.mu.gatherings[key]
	if g == nil {
		if len(s.mu.gatherings) >= maxGatherings {
			old := oldest(s.mu.gatherings, func(g *gathering) time.Time { return g.seen })
			s.dropLocked(old, s.mu.gatherings[old])
		}
		g = &gathering{hosts: newLately(stormWindow/stormSteps, stormSteps), connections: newLately(stormWindow/stormSteps, stormSteps)}
		s.mu.gatherings[gatheringKey{strings.Clone(key.kind), strings.Clone(key.resource)}] = g
	}
	return g
}

// dropLocked forgets a gathering, with its storm.
func (s *storms) dropLocked(key gatheringKey, g *gathering) {
	if g.storm != nil {
		s.endLocked(g)
	}
	delete(s.mu.gatherings, key)
}

// oldest is the one of some by chance that was seen least lately: it makes room.
func oldest[K comparable, V any](all map[K]V, seen func(V) time.Time) (key K) {
	const some = 16
	n := 0
	var when time.Time
	for k, v := range all {
		if at := seen(v); n == 0 || at.Before(when) {
			key, when = k, at
		}
		if n++; n == some {
			break
		}
	}
	return key
}

// beginLocked begins a storm. Those who listed lately are its first clients.
func (s *storms) beginLocked(key gatheringKey, g *gathering, now time.Time) {
	g.storm = &report.Storm{UserAgent: strings.Clone(key.kind), Resource: strings.Clone(key.resource), Began: now}
	tenMinutes := &g.hosts
	if g.byConnection {
		tenMinutes = &g.connections
	}
	g.listed = tenMinutes.all(now)
	// The one that is being judged is counted by who judges.
	g.storm.Requests = uint64(g.listed.count()) - 1
	if s.cfg.Pace > 0 {
		g.meter = newMeter(now)
	}
}

// waitingLocked reports whether clients wait for their time to list.
func (s *storms) waitingLocked(g *gathering, now time.Time) bool {
	if g.meter == nil {
		return false
	}
	before := len(g.meter.held)
	g.meter.expire(now)
	s.mu.held += len(g.meter.held) - before
	return len(g.meter.held) > 0
}

// endLocked ends a storm at the time of its last request.
func (s *storms) endLocked(g *gathering) {
	if g.meter != nil {
		s.mu.held -= len(g.meter.held)
	}
	g.storm.Ended, g.storm.Clients = g.seen, g.listed.count()
	s.tell("Storm of relists ended", g.storm, g.storm.Clients, g.storm.Fleet)
	if s.mu.past = append(s.mu.past, *g.storm); len(s.mu.past) > pastStorms {
		s.mu.past = s.mu.past[1:]
	}
	g.storm, g.meter, g.listed = nil, nil, crowd{}
}

func (s *storms) tell(what string, storm *report.Storm, clients, fleet int) {
	s.cfg.Logger.Info(what, "userAgent", storm.UserAgent, "resource", storm.Resource, "clients", clients, "fleet", fleet,
		"requests", storm.Requests, "bytes", storm.Bytes, "pacePercent", s.cfg.Pace)
}

// sent adds bytes to a storm, if there is one.
func (s *storms) sent(kind, resource string, bytes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.mu.gatherings[gatheringKey{kind, resource}]; g != nil && g.storm != nil {
		g.storm.Bytes += bytes
	}
}

// sweepLocked ends storms and forgets those that ended long ago, and gatherings of which
// nothing is left to be known.
func (s *storms) sweepLocked(now time.Time) {
	for key, g := range s.mu.gatherings {
		if g.storm != nil {
			s.judgeLocked(key, g, now)
		}
		if g.storm == nil && g.over(now) {
			delete(s.mu.gatherings, key)
		}
	}
	s.mu.past = slices.DeleteFunc(s.mu.past, func(storm report.Storm) bool { return now.Sub(storm.Ended) > stormKept })
}

// counts are how many storms go on, and how many requests were held back.
func (s *storms) counts(now time.Time) (going int, paced uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked(now)
	for _, g := range s.mu.gatherings {
		if g.storm != nil {
			going++
		}
	}
	return going, s.mu.paced
}

// report tells of storms, the newest first.
func (s *storms) report(now time.Time) (all []report.Storm, paced uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked(now)
	all = append([]report.Storm{}, s.mu.past...)
	for _, g := range s.mu.gatherings {
		if g.storm != nil {
			all = append(all, *g.storm)
		}
	}
	slices.SortFunc(all, func(a, b report.Storm) int {
		return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.UserAgent, b.UserAgent), cmp.Compare(a.Resource, b.Resource))
	})
	for i := range all {
		all[i].Advice = adviseStorm(&all[i], now, s.cfg.Pace)
	}
	return all, s.mu.paced
}
