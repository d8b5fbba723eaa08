package model

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/tool/model/simulation"
	"github.com/millrace/millrace/internal/tool/price"
)

// tolerance is how far a figure of the model may be from a measured one.
const tolerance = 0.25

// Comparison is a figure of a row of a report, as the model has it and as it was measured.
type Comparison struct {
	Row      string  `json:"row"`
	What     string  `json:"what"`
	Unit     string  `json:"unit"`
	Model    float64 `json:"model"`
	Measured float64 `json:"measured"`
	// Check is true if no constant was derived from the row.
	Check bool `json:"check"`
}

// Deviation is 0.1 if the model's figure is a tenth above the measured one.
func (c *Comparison) Deviation() float64 { return c.Model/c.Measured - 1 }

// Close says whether the figures are within the tolerance.
func (c *Comparison) Close() bool { return math.Abs(c.Deviation()) <= tolerance }

// Compare simulates the rows of tree.json in a directory that have 1,000 informers or more,
// with all processes on the same processors, as they were measured; and computes the LISTs of
// servers.json.
func Compare(dir string, constants Constants, seed uint64) ([]Comparison, error) {
	f, err := readFleets(dir)
	if err != nil {
		return nil, err
	}
	s := &fleetSimulation{reader: constantReader{constants: constants}, report: &f.tree, seed: seed}
	s.server, s.replica = s.reader.pricesOf(kubernetes), s.reader.pricesOf(replica)
	for i := range f.tree.Results {
		if row := &f.tree.Results[i]; row.Informers >= calibrationInformers && row.Opening != nil && row.Error == "" {
			s.compare(row)
		}
	}
	lists, err := compareLists(dir, constants)
	if err != nil {
		return nil, err
	}
	return append(s.all, lists...), s.reader.err
}

type fleetSimulation struct {
	reader          constantReader
	report          *fleetReport
	seed            uint64
	server, replica *prices
	all             []Comparison
}

// repeats is how many times as many writes are simulated as were measured, so that a single
// slow one does not decide.
const repeats = 20

// config is a tree on shared processors, as bench tree has it.
func (s *fleetSimulation) config(row *fleetRow) simulation.Config {
	cfg := simulation.Config{
		Seed: s.seed, Regular: true, Seconds: repeats * row.seconds(), SharedCores: s.report.Machine.Cores,
		Write:          simulation.Lognormal{Median: s.reader.value("write.p50"), P99: s.reader.value("write.p99")},
		WatcherSeconds: s.reader.value("client.event"), WriterSeconds: s.reader.value("client.write") + s.reader.value("etcd.writeQuiet"),
		Classes: []simulation.Class{{PerSecond: row.PerSecond, Watchers: row.Clients}},
		Tiers: []simulation.Tier{{
			Processes: 1, WriteSeconds: s.server.takeQuiet, FeedSeconds: s.server.feedQuiet, EventSeconds: s.server.event,
		}},
	}
	for tier := range row.Tiers {
		cfg.Tiers = append(cfg.Tiers, simulation.Tier{
			Processes: int(s.report.replicas(tier + 1)), FollowSeconds: s.replica.takeQuiet, FeedSeconds: s.replica.feedQuiet, EventSeconds: s.replica.event,
		})
	}
	return cfg
}

func (s *fleetSimulation) compare(row *fleetRow) {
	add := func(what, unit string, model, measured float64) {
		s.all = append(s.all, Comparison{
			Row: fmt.Sprintf("depth %d, %s informers", len(row.Tiers), people(row.Informers)), What: what, Unit: unit,
			Model: price.ThreeDigits(model), Measured: price.ThreeDigits(measured), Check: row.Informers > calibrationInformers,
		})
	}
	cfg := s.config(row)
	got := simulation.Run(cfg)
	depth := len(row.Tiers)
	for tier := range depth + 1 {
		cost, name, idle, count := &row.Upstream, "root", s.server.idle, 1.0
		if tier > 0 {
			cost, name, idle, count = &row.Tiers[tier-1], fmt.Sprint("depth ", tier), s.replica.idle, s.report.replicas(tier)
		}
		add("CPU, "+name, "s", got.CPUSeconds[tier]/repeats+idle*count*row.seconds(), cost.CPUSeconds)
		add("memory, "+name, "B", s.memory(row, tier), cost.RSSBytes)
		if sent := s.sent(row, tier); sent > 0 {
			add("sent, "+name, "B", sent, cost.SentBytes)
		}
	}
	add("event p50", "s", got.P50, row.Millis.P50/1e3)
	add("event p99", "s", got.P99, row.Millis.P99/1e3)
	kind, name := s.server, "server"
	if depth > 0 {
		kind, name = s.replica, "replica"
	}
	informer, informerBytes := s.reader.value(kind.name+".informer"), s.reader.value(kind.name+".informerBytes")
	began := simulation.RunBegin(cfg, simulation.Begin{
		Watchers: row.Informers, Resources: int(row.Informers / row.Clients), CPUSeconds: informer,
		WatcherSeconds: s.reader.value("client.informer." + name),
		ProofInterval:  row.Informers / row.Clients / row.PerSecond,
	})
	alone := s.report.alone(row.Setup)
	while := row.Opening.Writes / alone.Writes
	add("begin, time", "s", began.Seconds, row.Opening.Seconds)
	add("begin, CPU", "s", began.CPUSeconds, row.Opening.server().CPUSeconds-alone.server().CPUSeconds*while)
	add("begin, sent", "B", informerBytes*row.Informers, row.Opening.server().SentBytes-alone.server().SentBytes*while)
}

// memory is that of a tier, which is the root or the replicas of a depth.
func (s *fleetSimulation) memory(row *fleetRow, tier int) float64 {
	p, count := s.server, 1.0
	if tier > 0 {
		p, count = s.replica, s.report.replicas(tier)
	}
	if tier < len(row.Tiers) {
		return count * p.base
	}
	return count*(p.base+p.used) + row.Informers*(p.watch+p.begin) + row.Clients*p.connection
}

// sent is what a tier sends while writes are made.
func (s *fleetSimulation) sent(row *fleetRow, tier int) float64 {
	sent := 0.0
	if tier == 0 {
		sent = row.Writes * s.reader.value("fleet.writeBytes")
	}
	switch {
	case tier == len(row.Tiers):
		return sent + row.Events*s.reader.value("fleet.eventBytes")
	case tier == 0:
		return sent + row.Writes*s.report.replicas(1)*s.reader.value("fleet.feedBytes.server")
	}
	return sent + row.Writes*s.report.replicas(tier+1)*s.reader.value("fleet.feedBytes.replica")
}
