package model

import (
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

// Breaks has the limits of a setup that some size exceeds, in the order in which they are reached.
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
	EventsPerSecond float64 `json:"eventsPerSecond"` // to all watchers of the profile
	// StormBytes is the size of what all programs receive when they start, divided by the number
	// of nodes.
	StormBytes float64 `json:"stormBytesPerNode"`
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
	s := &sweep{calculator: m, profiles: profiles, report: r, latencies: cfg.Latencies, clusters: map[float64]*clusterLoad{}}
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
