package model

import (
	"cmp"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/tool/agentprofile"
	"github.com/millrace/millrace/internal/tool/display"
)

// sweep computes a report: one size after the other, and the sizes at which limits are reached.
type sweep struct {
	*calculator
	profiles  []*agentprofile.Profile
	report    *Report
	latencies bool
	// clusters caches clusters by number of nodes: the searches for all limits share them.
	clusters map[float64]*clusterLoad
	// unknown are the resources whose numbers are guesses.
	unknown []string
	// streams is the number of watches of the program with the most watches.
	streams float64
}

// clusterAt returns the cluster with a number of nodes, and the loads of its programs.
func (s *sweep) clusterAt(nodes float64) (*Cluster, *loads) {
	if l := s.clusters[nodes]; l != nil {
		return l.cluster, l.loads
	}
	c := s.report.Cluster
	c.Nodes = nodes
	l := &loads{newLoad(), newLoad()}
	for _, p := range s.profiles {
		l.nodes.addProfile(&c, p, agentprofile.PerNode, s.wire)
		l.cluster.addProfile(&c, p, agentprofile.PerCluster, s.wire)
	}
	s.clusters[nodes] = &clusterLoad{&c, l}
	return &c, l
}

// clusterLoad is a cluster with the loads of its programs.
type clusterLoad struct {
	cluster *Cluster
	loads   *loads
}

// breaks returns the limits of a setup in the order in which they are reached. Each has the amounts
// of the size at which it is reached.
func (s *sweep) breaks(setup Setup) Breaks {
	cache := map[float64][]Limit{}
	limitsAt := func(nodes float64) []Limit {
		if cache[nodes] == nil {
			c, l := s.clusterAt(nodes)
			cache[nodes] = s.limits(c, s.usage(c, l, setup), setup)
		}
		return cache[nodes]
	}
	all := slices.Clone(limitsAt(minNodes))
	for i := range all {
		all[i].Nodes = roundNodes(breakPoint(func(nodes float64) bool {
			limits := limitsAt(nodes)
			return limits[i].isExceeded()
		}))
	}
	all = slices.DeleteFunc(all, func(l Limit) bool { return l.Nodes == 0 })
	slices.SortStableFunc(all, func(a, b Limit) int { return cmp.Compare(a.Nodes, b.Nodes) })
	for i := range all { // replace the amounts at minNodes by the amounts at the break
		for _, l := range limitsAt(all[i].Nodes) {
			if l.Name == all[i].Name {
				l.Nodes = all[i].Nodes
				all[i] = l
			}
		}
	}
	return Breaks{Setup: setup, Limits: all, Sentence: breakSentence(setup, all)}
}

// addSize adds the results of all setups at a number of nodes.
func (s *sweep) addSize(nodes float64) {
	size := Size{Nodes: nodes}
	c, l := s.clusterAt(nodes)
	for _, setup := range Setups() {
		u := s.usage(c, l, setup)
		entry := Entry{Setup: setup, Usage: u}
		if s.latencies {
			entry.Events = s.simulateEvents(c, l.nodes, u, s.report.Seed)
		}
		for _, limit := range s.limits(c, u, setup) {
			if limit.isExceeded() {
				entry.Exceeded = append(entry.Exceeded, limit)
			}
		}
		if e := entry.Events; e != nil && e.P99 > eventObjectiveSeconds {
			(*limitList)(&entry.Exceeded).add(display.Seconds, Limit{
				Name: "p99 of events", Needed: e.P99, Available: eventObjectiveSeconds,
			})
		}
		size.Results = append(size.Results, entry)
	}
	s.report.Sizes = append(s.report.Sizes, size)
	for _, p := range s.profiles {
		s.report.Profiles = append(s.report.Profiles, s.profileLoad(c, p))
	}
	s.streams = max(l.nodes.streams, l.cluster.streams)
	maps.Copy(l.nodes.unknown, l.cluster.unknown)
	s.unknown = slices.Sorted(maps.Keys(l.nodes.unknown))
}

// addObjects adds the resources of a cluster to the report, the one with the most bytes first.
func (s *sweep) addObjects(nodes float64) {
	c, _ := s.clusterAt(nodes)
	resources := c.resources()
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		r := resources[name]
		if r.objects > 0 {
			s.report.Objects = append(s.report.Objects, ObjectCount{name, nodes, r.objects, r.bytes, r.changes, c.counts.has(name)})
		}
	}
	slices.SortStableFunc(s.report.Objects, func(a, b ObjectCount) int { return cmp.Compare(b.Objects*b.Bytes, a.Objects*a.Bytes) })
}

// profileLoad returns the read load of a profile in a cluster.
func (s *sweep) profileLoad(c *Cluster, p *agentprofile.Profile) ProfileLoad {
	l := newLoad()
	l.addProfile(c, p, agentprofile.PerNode, s.wire)
	l.addProfile(c, p, agentprofile.PerCluster, s.wire)
	r := ProfileLoad{Profile: p.Name, Nodes: c.Nodes, Watches: l.watches}
	for _, name := range l.eventResources() {
		r.EventsPerSecond += l.events[name].perSecond * l.events[name].watchers
	}
	for i := range l.storm {
		r.StormBytes += l.storm[i].count * l.storm[i].bytes / c.Nodes
	}
	r.KubernetesCPU, r.MillraceCPU = readCPU(l, s.servers[kubernetes]), readCPU(l, s.servers[millrace])
	r.ReplicaCPU = readCPU(l, s.replica)
	return r
}
