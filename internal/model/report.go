package model

import (
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/hollow/agentprofile"
	"github.com/millrace/millrace/internal/model/simulation"
)

// Report is what the command prints.
type Report struct {
	Cluster Cluster `json:"cluster"` // Nodes is 0
	Seed    uint64  `json:"seed"`
	Sizes   []Size  `json:"sizes"`
	// Breaks has, for each setup, the limits in the order in which they are reached.
	Breaks   []Breaks      `json:"breaks"`
	Profiles []ProfileLoad `json:"profiles"`
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
	// Events is what the simulation says of latencies. Nil: the processors cannot do the
	// work, or the simulation says the same.
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

// Config says what to compute.
type Config struct {
	Cluster   Cluster
	Sizes     []int
	Seed      uint64
	Constants Constants
}

// Run computes a report.
func Run(cfg Config) (*Report, error) {
	m, err := newCalculator(cfg.Constants)
	if err != nil {
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
	s := &sweep{calculator: m, profiles: profiles, report: r}
	for _, setup := range Setups() {
		r.Breaks = append(r.Breaks, s.breaks(setup))
	}
	for _, nodes := range cfg.Sizes {
		s.size(float64(nodes))
	}
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

// sweep computes all sizes and setups.
type sweep struct {
	*calculator
	profiles []*agentprofile.Profile
	report   *Report
	// unknown are resources whose numbers are guesses. streams is the most of one program.
	unknown []string
	streams float64
}

// at is the cluster with so many nodes, and what is read in it.
func (s *sweep) at(nodes float64) (*Cluster, *loads) {
	c := s.report.Cluster
	c.Nodes = nodes
	l := &loads{newLoad(), newLoad()}
	for _, p := range s.profiles {
		l.nodes.add(&c, p, agentprofile.PerNode, s.wire)
		l.cluster.add(&c, p, agentprofile.PerCluster, s.wire)
	}
	return &c, l
}

// breaks computes where each limit is reached.
func (s *sweep) breaks(setup Setup) Breaks {
	limitsAt := func(nodes float64) []Limit {
		c, l := s.at(nodes)
		return s.limits(c, s.usage(c, l, setup), setup)
	}
	all := limitsAt(fewestNodes)
	for i := range all {
		all[i].Nodes = roundNodes(breakPoint(func(nodes float64) bool {
			at := limitsAt(nodes)
			return at[i].exceeded()
		}))
	}
	all = slices.DeleteFunc(all, func(l Limit) bool { return l.Nodes == 0 })
	slices.SortStableFunc(all, func(a, b Limit) int {
		switch {
		case a.Nodes < b.Nodes:
			return -1
		case a.Nodes > b.Nodes:
			return 1
		}
		return 0
	})
	for i := range all { // as they are where they break
		for _, l := range limitsAt(all[i].Nodes * 1.05) {
			if l.What == all[i].What {
				all[i].Value, all[i].Most, all[i].Text, all[i].Helps = l.Value, l.Most, l.Text, l.Helps
			}
		}
	}
	return Breaks{Setup: setup, Limits: all, Sentence: sentence(setup, all)}
}

// size computes all setups at one size.
func (s *sweep) size(nodes float64) {
	size := Size{Nodes: nodes}
	c, l := s.at(nodes)
	for _, setup := range Setups() {
		u := s.usage(c, l, setup)
		entry := Entry{Setup: setup, Usage: u, Events: s.events(c, l.nodes, u)}
		for _, limit := range s.limits(c, u, setup) {
			if limit.exceeded() {
				entry.Exceeded = append(entry.Exceeded, limit)
			}
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

const (
	// simulatedWrites is about how many writes a run simulates.
	simulatedWrites = 30_000
	longestRun      = 30.0 // seconds
	// smallShare is the part of all deliveries below which a resource's events are only load.
	smallShare = 0.01
	// mostUsed is the part of a processor's time above which a queue has no meaning.
	mostUsed = 0.95
)

// events simulates the tree. It is nil if some tier has too little CPU or network.
func (s *sweep) events(c *Cluster, l *load, u *Usage) *Events {
	total := 0.0
	for _, e := range l.events {
		total += e.perSecond * e.watchers
	}
	var classes []simulation.Class
	perSecond := 0.0
	for _, name := range l.follows() {
		if e := l.events[name]; e.perSecond*e.watchers >= smallShare*total {
			classes = append(classes, simulation.Class{PerSecond: e.perSecond, Watchers: e.watchers, Bytes: e.bytes / e.watchers})
			perSecond += e.perSecond
		}
	}
	if perSecond == 0 {
		return nil
	}
	cfg := simulation.Config{
		Seed: s.report.Seed, Classes: classes, Seconds: min(longestRun, simulatedWrites/perSecond),
		Write:      simulation.Lognormal{Median: s.reader.value("write.p50"), P99: s.reader.value("write.p99")},
		HopSeconds: s.reader.value("hop"),
	}
	tiers := append([]*ProcessUsage{&u.Servers}, tierPointers(u)...)
	for depth, t := range tiers {
		tier, ok := s.tier(c, t, classes, depth)
		if !ok {
			return nil
		}
		cfg.Tiers = append(cfg.Tiers, tier)
	}
	got := simulation.Run(cfg)
	if got.Overloaded {
		return nil
	}
	return &Events{P50: digits(got.P50), P99: digits(got.P99)}
}

func tierPointers(u *Usage) (tiers []*ProcessUsage) {
	for i := range u.Tiers {
		tiers = append(tiers, &u.Tiers[i])
	}
	return tiers
}

// tier describes a tier for the simulation: what it has besides the simulated events takes
// processors from them. It reports false if they cannot do the work.
func (s *sweep) tier(c *Cluster, u *ProcessUsage, classes []simulation.Class, depth int) (simulation.Tier, bool) {
	p := u.prices
	n := float64(u.Processes)
	t := simulation.Tier{Processes: u.Processes, EventSeconds: p.event, FeedSeconds: p.event, ByteSeconds: 1 / c.networkBytes()}
	if depth > 0 {
		t.FollowSeconds = p.takeBusy
	}
	if u.each() > mostUsed*c.Cores || u.SentBytes/n > mostUsed*c.networkBytes() {
		return t, false
	}
	simulated := 0.0
	last := u.EventSeconds > 0
	for _, class := range classes {
		simulated += class.PerSecond * t.FollowSeconds
		if last {
			simulated += class.PerSecond * class.Watchers / n * p.event
		}
	}
	t.Cores = min(c.Cores, max(c.Cores*(1-mostUsed), c.Cores-max(0, u.each()-simulated)))
	return t, true
}
