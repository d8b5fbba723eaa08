package model

import (
	"cmp"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/tool/agentprofile"
)

// sweep computes a report: one size after the other, and the sizes at which limits are reached.
type sweep struct {
	*calculator
	profiles  []*agentprofile.Profile
	report    *Report
	latencies bool
	// known has the clusters so far by number of nodes: the searches for all limits need the same
	// ones.
	known map[float64]*clusterLoad
	// unknown are the resources whose numbers are guesses. streams is the most watches of one
	// program.
	unknown []string
	streams float64
}

// clusterAt returns the cluster with a number of nodes, and the loads of its programs.
func (s *sweep) clusterAt(nodes float64) (*Cluster, *loads) {
	if known := s.known[nodes]; known != nil {
		return known.cluster, known.loads
	}
	c := s.report.Cluster
	c.Nodes = nodes
	l := &loads{newLoad(), newLoad()}
	for _, p := range s.profiles {
		l.nodes.addProfile(&c, p, agentprofile.PerNode, s.wire)
		l.cluster.addProfile(&c, p, agentprofile.PerCluster, s.wire)
	}
	s.known[nodes] = &clusterLoad{&c, l}
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
	known := map[float64][]Limit{}
	limitsAt := func(nodes float64) []Limit {
		if known[nodes] == nil {
			c, l := s.clusterAt(nodes)
			known[nodes] = s.limits(c, s.usage(c, l, setup), setup)
		}
		return known[nodes]
	}
	all := slices.Clone(limitsAt(fewestNodes))
	for i := range all {
		all[i].Nodes = roundNodes(breakPoint(func(nodes float64) bool {
			limits := limitsAt(nodes)
			return limits[i].isExceeded()
		}))
	}
	all = slices.DeleteFunc(all, func(l Limit) bool { return l.Nodes == 0 })
	slices.SortStableFunc(all, func(a, b Limit) int { return cmp.Compare(a.Nodes, b.Nodes) })
	for i := range all { // the amounts at fewestNodes become those at the break
		for _, l := range limitsAt(all[i].Nodes) {
			if l.What == all[i].What {
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
		if e := entry.Events; e != nil && e.P99 > eventObjective {
			var all limitList
			all.addLimit("p99 of events", e.P99, eventObjective, secondsAmount())
			entry.Exceeded = append(entry.Exceeded, all...)
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
	for i := range l.begin {
		r.BeginBytes += l.begin[i].count * l.begin[i].bytes / c.Nodes
	}
	r.KubernetesCPU, r.MillraceCPU = readCPU(l, s.servers[kubernetes]), readCPU(l, s.servers[millrace])
	r.ReplicaCPU = readCPU(l, s.replica)
	return r
}
