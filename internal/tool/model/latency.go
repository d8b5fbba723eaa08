package model

import (
	"github.com/millrace/millrace/internal/tool/model/simulation"
	"github.com/millrace/millrace/internal/tool/price"
)

// Bounds of the simulation.
const (
	// simulatedWrites is about the number of writes that a run simulates.
	simulatedWrites = 10_000
	maxRunSeconds   = 30.0 // simulated
	// minDeliveries is the fraction of all deliveries below which the events of a resource are not
	// simulated. Such events only take processors.
	minDeliveries = 0.01
	// maxUtilization is the fraction of the processors above which a queue would grow without end.
	maxUtilization = 0.95
)

// simulateEvents simulates the tree, and returns the latencies of events. It returns nil if some
// tier has too little CPU or network, or if there are no events.
func (m *calculator) simulateEvents(c *Cluster, l *load, u *Usage, seed uint64) *Events {
	s := &latencySimulation{cluster: c}
	perSecond := s.addClasses(l)
	if perSecond == 0 {
		return nil
	}
	cfg := simulation.Config{
		Seed: seed, Classes: s.classes, Seconds: min(maxRunSeconds, simulatedWrites/perSecond),
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
		tier, ok := s.tierConfig(t, depth > 0, children)
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

// latencySimulation returns the Config of a simulation.
type latencySimulation struct {
	cluster *Cluster
	classes []simulation.Class
}

// addClasses adds classes for the resources with many deliveries, and returns the number of their
// writes per second.
func (s *latencySimulation) addClasses(l *load) (perSecond float64) {
	total := 0.0
	for _, name := range l.eventResources() {
		total += l.events[name].perSecond * l.events[name].watchers
	}
	for _, name := range l.eventResources() {
		if e := l.events[name]; e.perSecond*e.watchers >= minDeliveries*total {
			s.classes = append(s.classes, simulation.Class{PerSecond: e.perSecond, Watchers: e.watchers, Bytes: e.bytes / e.watchers})
			perSecond += e.perSecond
		}
	}
	return perSecond
}

// tierConfig returns the simulated Tier for the usage of a tier. follows says that its processes
// follow another tier. children is the number of processes that follow this tier: 0 for the last.
// Work that is not simulated is taken off Tier.Cores. ok is false if the processors or networks
// cannot do the work.
func (s *latencySimulation) tierConfig(u *ProcessUsage, follows bool, children int) (tier simulation.Tier, ok bool) {
	c, p, n := s.cluster, u.prices, float64(u.Processes)
	t := simulation.Tier{Processes: u.Processes, EventSeconds: p.event, FeedSeconds: p.event, ByteSeconds: 1 / c.networkBytes()}
	if follows {
		t.FollowSeconds = p.takeBusy
	}
	if u.cpuPerProcess() > maxUtilization*c.Cores || u.SentBytes/n > maxUtilization*c.networkBytes() {
		return t, false
	}
	simulated := 0.0
	for _, class := range s.classes {
		simulated += class.PerSecond * (t.FollowSeconds + float64(children)/n*t.FeedSeconds)
		if children == 0 {
			simulated += class.PerSecond * class.Watchers / n * p.event
		}
	}
	t.Cores = min(c.Cores, max(c.Cores*(1-maxUtilization), c.Cores-max(0, u.cpuPerProcess()-simulated)))
	return t, true
}
