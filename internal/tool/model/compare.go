package model

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/tool/model/simulation"
	"github.com/millrace/millrace/internal/tool/price"
)

// tolerance bounds the Deviation of a figure that is close to the measured one.
const tolerance = 0.25

// Comparison is a figure of a row of a report: as the model computes it, and as it was measured.
type Comparison struct {
	Row      string  `json:"row"`
	Figure   string  `json:"figure"`
	Unit     string  `json:"unit"` // as in Constant
	Model    float64 `json:"model"`
	Measured float64 `json:"measured"`
	// Check says that no constant was derived from the row.
	Check bool `json:"check"`
}

// Deviation returns the relative difference: 0.1 if the model's figure is a tenth above the
// measured figure.
func (c *Comparison) Deviation() float64 { return c.Model/c.Measured - 1 }

// IsClose reports whether the figures differ by no more than the tolerance.
func (c *Comparison) IsClose() bool { return math.Abs(c.Deviation()) <= tolerance }

// Compare returns comparisons with the reports in a directory. It simulates the rows of tree.json
// with 1,000 informers or more. All processes share the processors, as in the measurement. It also
// computes the LISTs of servers.json.
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

// fleetSimulation compares rows of tree.json with simulations of them.
type fleetSimulation struct {
	reader          constantReader
	report          *fleetReport
	seed            uint64
	server, replica *prices
	all             []Comparison
}

// repeats is the number of simulated writes per measured write. Thus a single slow write does not
// decide the p99.
const repeats = 20

// config returns the Config of a row: a tree on shared processors, as in bench tree.
func (s *fleetSimulation) config(row *fleetRow) simulation.Config {
	cfg := simulation.Config{
		Seed: s.seed, Regular: true, Seconds: repeats * row.seconds(), SharedCores: s.report.Machine.Cores,
		Write:          simulation.Lognormal{Median: s.reader.value("write.p50"), P99: s.reader.value("write.p99")},
		WatcherSeconds: s.reader.value("client.event"),
		WriterSeconds:  s.reader.value("client.write") + s.reader.value("etcd.writeQuiet"),
		Classes:        []simulation.Class{{PerSecond: row.PerSecond, Watchers: row.Clients}},
		Tiers: []simulation.Tier{{
			Processes: 1, WriteSeconds: s.server.takeQuiet, FeedSeconds: s.server.feedQuiet, EventSeconds: s.server.event,
		}},
	}
	for tier := range row.Tiers {
		cfg.Tiers = append(cfg.Tiers, simulation.Tier{
			Processes: int(s.report.replicasAtDepth(tier + 1)), FollowSeconds: s.replica.takeQuiet,
			FeedSeconds: s.replica.feedQuiet, EventSeconds: s.replica.event,
		})
	}
	return cfg
}

// compare simulates a row, and adds comparisons of its figures.
func (s *fleetSimulation) compare(row *fleetRow) {
	add := func(figure, unit string, model, measured float64) {
		s.all = append(s.all, Comparison{
			Row: fmt.Sprintf("depth %d, %s informers", len(row.Tiers), formatWhole(row.Informers)), Figure: figure, Unit: unit,
			Model: price.ThreeDigits(model), Measured: price.ThreeDigits(measured), Check: row.Informers > calibrationInformers,
		})
	}
	cfg := s.config(row)
	got := simulation.Run(cfg)
	depth := len(row.Tiers)
	for tier := range depth + 1 {
		cost, name := &row.Upstream, "root"
		idle := s.server.idle // of all processes of the tier
		if tier > 0 {
			cost, name = &row.Tiers[tier-1], fmt.Sprint("depth ", tier)
			idle = s.replica.idle * s.report.replicasAtDepth(tier)
		}
		add("CPU, "+name, "s", got.CPUSeconds[tier]/repeats+idle*row.seconds(), cost.CPUSeconds)
		add("memory, "+name, "B", s.memoryBytes(row, tier), cost.RSSBytes)
		if sent := s.sentBytes(row, tier); sent > 0 {
			add("sent, "+name, "B", sent, cost.SentBytes)
		}
	}
	add("event p50", "s", got.P50, row.Millis.P50/1e3)
	add("event p99", "s", got.P99, row.Millis.P99/1e3)
	readAt := s.server
	clientPrice := "client.informer.server"
	if depth > 0 {
		readAt = s.replica
		clientPrice = "client.informer.replica"
	}
	informer, informerBytes := s.reader.value(readAt.name+".informer"), s.reader.value(readAt.name+".informerBytes")
	storm := simulation.RunStorm(cfg, simulation.Storm{
		Watchers: row.Informers, Resources: int(row.Informers / row.Clients), CPUSeconds: informer,
		WatcherSeconds: s.reader.value(clientPrice),
		ProofSeconds:   row.Informers / row.Clients / row.PerSecond,
	})
	baseline := s.report.baseline(row.Setup)
	writes := row.Opening.Writes / baseline.Writes // during the storm, relative to the writes of the baseline
	add("storm, time", "s", storm.Seconds, row.Opening.Seconds)
	add("storm, CPU", "s", storm.CPUSeconds, row.Opening.servingCost().CPUSeconds-baseline.servingCost().CPUSeconds*writes)
	add("storm, sent", "B", informerBytes*row.Informers, row.Opening.servingCost().SentBytes-baseline.servingCost().SentBytes*writes)
}

// memoryBytes returns the memory of all processes of a tier: of the root (0), or of the replicas of
// a depth.
func (s *fleetSimulation) memoryBytes(row *fleetRow, tier int) float64 {
	p := s.server
	count := 1.0
	if tier > 0 {
		p = s.replica
		count = s.report.replicasAtDepth(tier)
	}
	if tier < len(row.Tiers) {
		return count * p.base
	}
	return count*(p.base+p.used) + row.Informers*(p.watch+p.stormWatch) + row.Clients*p.connection
}

// sentBytes returns the bytes that a tier sends in the time of the writes.
func (s *fleetSimulation) sentBytes(row *fleetRow, tier int) float64 {
	sent := 0.0
	if tier == 0 {
		sent = row.Writes * s.reader.value("fleet.writeBytes")
	}
	switch {
	case tier == len(row.Tiers):
		return sent + row.Events*s.reader.value("fleet.eventBytes")
	case tier == 0:
		return sent + row.Writes*s.report.replicasAtDepth(1)*s.reader.value("fleet.feedBytes.server")
	}
	return sent + row.Writes*s.report.replicasAtDepth(tier+1)*s.reader.value("fleet.feedBytes.replica")
}
