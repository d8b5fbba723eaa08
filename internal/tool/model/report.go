package model

import (
	"cmp"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/tool/agentprofile"
)

// Report is what the command prints.
type Report struct {
	Cluster Cluster `json:"cluster"` // Nodes is 0
	Seed    uint64  `json:"seed"`
	Sizes   []Size  `json:"sizes"`
	// Breaks has the limits of each setup, in the order in which they are reached.
	Breaks   []Breaks      `json:"breaks"`
	Profiles []ProfileLoad `json:"profiles"`
	// Objects has the resources of the largest size. Their numbers are assumed, unless they were
	// counted.
	Objects []ObjectCount `json:"objects"`
	// Origins has the origin of each kind of figures.
	Origins   map[string]Origin `json:"origins"`
	Constants Constants         `json:"constants"`
	Notes     []string          `json:"notes"`
}

// Size has the results of all setups at one number of nodes.
type Size struct {
	Nodes   float64 `json:"nodes"`
	Results []Entry `json:"results"`
}

// Entry is the result of one setup at one size.
type Entry struct {
	Setup Setup  `json:"setup"`
	Usage *Usage `json:"usage"`
	// Events has the latencies of the simulation. It is nil if the processors or networks cannot
	// do the work, or if nothing was simulated.
	Events   *Events `json:"events,omitempty"`
	Exceeded []Limit `json:"exceeded,omitempty"`
}

// Events has latencies of watch events.
type Events struct {
	P50 float64 `json:"p50Seconds"`
	P99 float64 `json:"p99Seconds"`
}

// Breaks has the limits of a setup that some size exceeds.
type Breaks struct {
	Setup  Setup   `json:"setup"`
	Limits []Limit `json:"limits"`
	// Sentence says what breaks first.
	Sentence string `json:"sentence"`
}

// ProfileLoad is the read load of one profile at one size.
type ProfileLoad struct {
	Profile         string  `json:"profile"`
	Nodes           float64 `json:"nodes"`
	Watches         float64 `json:"watches"`
	EventsPerSecond float64 `json:"eventsPerSecond"` // to all its watchers
	// BeginBytes is the size of what all programs receive when they begin, divided by the number
	// of nodes.
	BeginBytes float64 `json:"beginBytesPerNode"`
	// The CPU is of reads alone, in processors.
	KubernetesCPU float64 `json:"kubernetesCPU"`
	MillraceCPU   float64 `json:"millraceCPU"`
	ReplicaCPU    float64 `json:"replicaCPU"`
}

// ObjectCount has the numbers of a resource of the cluster.
type ObjectCount struct {
	Resource string  `json:"resource"`
	Nodes    float64 `json:"nodes"`
	Objects  float64 `json:"objects"`
	Bytes    float64 `json:"bytes"` // of one object, as JSON
	Changes  float64 `json:"changesPerSecond"`
	Counted  bool    `json:"counted,omitempty"` // in a real cluster
}

// Config says what to compute.
type Config struct {
	Cluster   Cluster
	Sizes     []int
	Seed      uint64
	Constants Constants
	// Latencies says to simulate latencies, which takes most of the time.
	Latencies bool
}

// Run computes a report.
func Run(cfg Config) (*Report, error) {
	m, err := newCalculator(cfg.Constants)
	if err != nil {
		return nil, err
	}
	if err := cfg.Cluster.readCounts(); err != nil {
		return nil, err
	}
	if err := cfg.Cluster.validate(); err != nil {
		return nil, err
	}
	profiles, err := loadProfiles(&cfg.Cluster)
	if err != nil {
		return nil, err
	}
	r := &Report{Cluster: cfg.Cluster, Seed: cfg.Seed, Constants: cfg.Constants, Origins: origins()}
	r.Cluster.Nodes = 0
	s := &sweep{calculator: m, profiles: profiles, report: r, latencies: cfg.Latencies, known: map[float64]*clusterLoad{}}
	for _, setup := range Setups() {
		r.Breaks = append(r.Breaks, s.breaks(setup))
	}
	for _, nodes := range cfg.Sizes {
		s.addSize(float64(nodes))
	}
	s.addObjects(float64(slices.Max(cfg.Sizes)))
	r.Notes = s.notes()
	return r, m.reader.err
}

// loadProfiles returns the profiles of a cluster: of the kubelet, kube-proxy and the agents.
func loadProfiles(c *Cluster) ([]*agentprofile.Profile, error) {
	set, err := agentprofile.Open(c.Profiles)
	if err != nil {
		return nil, err
	}
	names := []string{agentprofile.Kubelet}
	if c.KubeProxy {
		names = append(names, agentprofile.KubeProxy)
	}
	var all []*agentprofile.Profile
	for _, name := range append(names, c.Agents...) {
		p, err := set.Load(name)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

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
