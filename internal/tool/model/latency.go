package model

import (
	"github.com/millrace/millrace/internal/tool/model/simulation"
	"github.com/millrace/millrace/internal/tool/price"
)

const (
	// simulatedWrites is about how many writes a run simulates.
	simulatedWrites = 10_000
	longestRun      = 30.0 // seconds
	// smallShare is the part of all deliveries below which a resource's events are only load.
	smallShare = 0.01
	// mostUsed is the part of a processor's time above which a queue has no meaning.
	mostUsed = 0.95
)

// events simulates the tree. It is nil if some tier has too little CPU or network.
func (m *calculator) events(c *Cluster, l *load, u *Usage, seed uint64) *Events {
	s := &latencySimulation{cluster: c}
	perSecond := s.addClasses(l)
	if perSecond == 0 {
		return nil
	}
	cfg := simulation.Config{
		Seed: seed, Classes: s.classes, Seconds: min(longestRun, simulatedWrites/perSecond),
		Write:      simulation.Lognormal{Median: m.reader.value("write.p50"), P99: m.reader.value("write.p99")},
		HopSeconds: m.reader.value("hop"),
	}
	tiers := []*ProcessUsage{&u.Servers}
	for i := range u.Tiers {
		tiers = append(tiers, &u.Tiers[i])
	}
	for depth, t := range tiers {
		children := 0
		if depth+1 < len(tiers) {
			children = tiers[depth+1].Processes
		}
		tier, ok := s.tier(t, depth > 0, children)
		if !ok {
			return nil
		}
		cfg.Tiers = append(cfg.Tiers, tier)
	}
	got := simulation.Run(cfg)
	if got.Overloaded {
		return nil
	}
	return &Events{P50: price.ThreeDigits(got.P50), P99: price.ThreeDigits(got.P99)}
}

type latencySimulation struct {
	cluster *Cluster
	classes []simulation.Class
}

// addClasses adds the events that matter, and returns how many there are in a second.
func (s *latencySimulation) addClasses(l *load) (perSecond float64) {
	total := 0.0
	for _, name := range l.follows() {
		total += l.events[name].perSecond * l.events[name].watchers
	}
	for _, name := range l.follows() {
		if e := l.events[name]; e.perSecond*e.watchers >= smallShare*total {
			s.classes = append(s.classes, simulation.Class{PerSecond: e.perSecond, Watchers: e.watchers, Bytes: e.bytes / e.watchers})
			perSecond += e.perSecond
		}
	}
	return perSecond
}

// tier describes a tier that feeds so many processes, none of the last tier. What it does
// besides the simulated events takes processors from them. It reports false if they cannot do
// the work.
func (s *latencySimulation) tier(u *ProcessUsage, follows bool, children int) (simulation.Tier, bool) {
	c, p, n := s.cluster, u.prices, float64(u.Processes)
	t := simulation.Tier{Processes: u.Processes, EventSeconds: p.event, FeedSeconds: p.event, ByteSeconds: 1 / c.networkBytes()}
	if follows {
		t.FollowSeconds = p.takeBusy
	}
	if u.each() > mostUsed*c.Cores || u.SentBytes/n > mostUsed*c.networkBytes() {
		return t, false
	}
	simulated := 0.0
	for _, class := range s.classes {
		simulated += class.PerSecond * (t.FollowSeconds + float64(children)/n*t.FeedSeconds)
		if children == 0 {
			simulated += class.PerSecond * class.Watchers / n * p.event
		}
	}
	t.Cores = min(c.Cores, max(c.Cores*(1-mostUsed), c.Cores-max(0, u.each()-simulated)))
	return t, true
}
