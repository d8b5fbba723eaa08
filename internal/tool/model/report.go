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
	// Breaks has, for each setup, the limits in the order in which they are reached.
	Breaks   []Breaks      `json:"breaks"`
	Profiles []ProfileLoad `json:"profiles"`
	// Objects are those of the largest size, all assumed but where they were counted.
	Objects []ObjectCount `json:"objects"`
	// Origins say of what kind figures are.
	Origins   map[string]Origin `json:"origins"`
	Constants Constants         `json:"constants"`
	Notes     []string          `json:"notes"`
}

// Size is all setups at one number of nodes.
type Size struct {
	Nodes   float64 `json:"nodes"`
	Results []Entry `json:"results"`
}

// Entry is one setup at one size.
type Entry struct {
	Setup Setup  `json:"setup"`
	Usage *Usage `json:"usage"`
	// Events is what the simulation says of latencies. Nil: the processors or networks cannot
	// do the work.
	Events   *Events `json:"events,omitempty"`
	Exceeded []Limit `json:"exceeded,omitempty"`
}

// Events are latencies of watch events, in seconds.
type Events struct {
	P50 float64 `json:"p50Seconds"`
	P99 float64 `json:"p99Seconds"`
}

// Breaks are the limits of a setup.
type Breaks struct {
	Setup  Setup   `json:"setup"`
	Limits []Limit `json:"limits"`
	// Sentence says what breaks first.
	Sentence string `json:"sentence"`
}

// ProfileLoad is what one profile reads at one size.
type ProfileLoad struct {
	Profile         string  `json:"profile"`
	Nodes           float64 `json:"nodes"`
	Watches         float64 `json:"watches"`
	EventsPerSecond float64 `json:"eventsPerSecond"` // to all its watchers
	// BeginBytes is what one program of each agent receives when it begins, for each node.
	BeginBytes float64 `json:"beginBytesPerNode"`
	// CPU is in processors, of reads alone.
	KubernetesCPU float64 `json:"kubernetesCPU"`
	MillraceCPU   float64 `json:"millraceCPU"`
	ReplicaCPU    float64 `json:"replicaCPU"`
}

// ObjectCount is a resource of the cluster.
type ObjectCount struct {
	Resource string  `json:"resource"`
	Nodes    float64 `json:"nodes"`
	Objects  float64 `json:"objects"`
	Bytes    float64 `json:"bytes"` // of one, as JSON
	Changes  float64 `json:"changesPerSecond"`
	Counted  bool    `json:"counted,omitempty"` // in a cluster
}

// Config says what to compute.
type Config struct {
	Cluster   Cluster
	Sizes     []int
	Seed      uint64
	Constants Constants
	// Latencies has them simulated, which takes most of the time.
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
		s.size(float64(nodes))
	}
	s.addObjects(float64(slices.Max(cfg.Sizes)))
	r.Notes = s.notes()
	return r, m.reader.err
}

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

type sweep struct {
	*calculator
	profiles  []*agentprofile.Profile
	report    *Report
	latencies bool
	// known has the sizes that were looked at: the searches of all limits ask for the same.
	known map[float64]*clusterLoad
	// unknown are resources whose numbers are guesses. streams is the most of one program.
	unknown []string
	streams float64
}

// at is the cluster with so many nodes, and what is read in it.
func (s *sweep) at(nodes float64) (*Cluster, *loads) {
	if known := s.known[nodes]; known != nil {
		return known.cluster, known.loads
	}
	c := s.report.Cluster
	c.Nodes = nodes
	l := &loads{newLoad(), newLoad()}
	for _, p := range s.profiles {
		l.nodes.add(&c, p, agentprofile.PerNode, s.wire)
		l.cluster.add(&c, p, agentprofile.PerCluster, s.wire)
	}
	s.known[nodes] = &clusterLoad{&c, l}
	return &c, l
}

// clusterLoad is a cluster with what is read in it.
type clusterLoad struct {
	cluster *Cluster
	loads   *loads
}

func (s *sweep) breaks(setup Setup) Breaks {
	known := map[float64][]Limit{}
	limitsAt := func(nodes float64) []Limit {
		if known[nodes] == nil {
			c, l := s.at(nodes)
			known[nodes] = s.limits(c, s.usage(c, l, setup), setup)
		}
		return known[nodes]
	}
	all := slices.Clone(limitsAt(fewestNodes))
	for i := range all {
		all[i].Nodes = roundNodes(breakPoint(func(nodes float64) bool {
			at := limitsAt(nodes)
			return at[i].exceeded()
		}))
	}
	all = slices.DeleteFunc(all, func(l Limit) bool { return l.Nodes == 0 })
	slices.SortStableFunc(all, func(a, b Limit) int { return cmp.Compare(a.Nodes, b.Nodes) })
	for i := range all { // as they are where they break
		for _, l := range limitsAt(all[i].Nodes) {
			if l.What == all[i].What {
				l.Nodes = all[i].Nodes
				all[i] = l
			}
		}
	}
	return Breaks{Setup: setup, Limits: all, Sentence: sentence(setup, all)}
}

func (s *sweep) size(nodes float64) {
	size := Size{Nodes: nodes}
	c, l := s.at(nodes)
	for _, setup := range Setups() {
		u := s.usage(c, l, setup)
		entry := Entry{Setup: setup, Usage: u}
		if s.latencies {
			entry.Events = s.events(c, l.nodes, u, s.report.Seed)
		}
		for _, limit := range s.limits(c, u, setup) {
			if limit.exceeded() {
				entry.Exceeded = append(entry.Exceeded, limit)
			}
		}
		if e := entry.Events; e != nil && e.P99 > eventObjective {
			var all limitList
			all.add("p99 of events", e.P99, eventObjective, secondsAmount())
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

// addObjects adds the objects of a cluster, the most bytes first.
func (s *sweep) addObjects(nodes float64) {
	c, _ := s.at(nodes)
	resources := c.resources()
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		r := resources[name]
		if r.objects > 0 {
			s.report.Objects = append(s.report.Objects, ObjectCount{name, nodes, r.objects, r.bytes, r.changes, c.counts.has(name)})
		}
	}
	slices.SortStableFunc(s.report.Objects, func(a, b ObjectCount) int { return cmp.Compare(b.Objects*b.Bytes, a.Objects*a.Bytes) })
}

func (s *sweep) profileLoad(c *Cluster, p *agentprofile.Profile) ProfileLoad {
	l := newLoad()
	l.add(c, p, agentprofile.PerNode, s.wire)
	l.add(c, p, agentprofile.PerCluster, s.wire)
	r := ProfileLoad{Profile: p.Name, Nodes: c.Nodes, Watches: l.watches}
	for _, name := range l.follows() {
		r.EventsPerSecond += l.events[name].perSecond * l.events[name].watchers
	}
	for i := range l.begin {
		r.BeginBytes += l.begin[i].count * l.begin[i].bytes / c.Nodes
	}
	r.KubernetesCPU, r.MillraceCPU, r.ReplicaCPU = readCPU(l, s.servers[kubernetes]), readCPU(l, s.servers[millrace]), readCPU(l, s.replica)
	return r
}
