package analyze

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/display"
)

// Start is the cost of a start of one instance of a client, and of a start of all instances.
type Start struct {
	serverreport.Client
	Fleet int `json:"fleet"`
	// StartCount is the number of instances whose start is in the log. Cost is the mean cost of one
	// start.
	StartCount int       `json:"seen"`
	Cost       Cost      `json:"cost"`
	Requests   []Request `json:"requests"`
	// FleetCPU, in seconds, and FleetBytes are the cost of a start of the whole fleet.
	FleetCPU   float64 `json:"fleetCPU"`
	FleetBytes float64 `json:"fleetBytes"`
	// SimultaneousSeconds is the time for which a server with Options.Cores is busy if all
	// instances start together.
	SimultaneousSeconds float64 `json:"atOnce"`
	// MaxPerMinute is the largest number of starts per minute that keeps the server below
	// Options.MaxCPU. It is at most maxFleetFraction of the fleet, or 1 if that is less.
	MaxPerMinute float64 `json:"perMinute"`
	// SpreadSeconds is the time in which the fleet starts at MaxPerMinute.
	SpreadSeconds float64 `json:"spread"`
	Advice        string  `json:"advice"`
}

// Request is a request that an instance sends when it starts.
type Request struct {
	SentShape
	// PerStart is the mean number of such requests in one start.
	PerStart float64 `json:"perStart"`
	// Cost is the cost of PerStart requests.
	Cost Cost `json:"cost"`
}

// maxFleetFraction bounds the fraction of a fleet that starts in a minute. One instance always may.
const maxFleetFraction = 0.1

// starts returns the costs of the starts of clients, the most expensive fleet first. It leaves out
// clients without a start in the log, and requests for other things than resources.
func (l *ledger) starts() []Start {
	byClient := map[serverreport.Client]*Start{}
	for _, r := range l.rows {
		use := l.clients[r.Client]
		if r.cell.atStart == 0 || use.starts == 0 || r.Version == "" {
			continue
		}
		s := byClient[r.Client]
		if s == nil {
			s = &Start{Client: r.Client, Fleet: use.fleet, StartCount: int(use.starts)}
			byClient[r.Client] = s
		}
		perStart := float64(r.cell.atStart) / float64(use.starts)
		one := l.model.costOf(&r.Shape, r.isInitial(), perStart)
		s.Cost.add(&one)
		s.Requests = append(s.Requests, Request{SentShape: r.SentShape, PerStart: perStart, Cost: one})
	}
	starts := make([]Start, 0, len(byClient))
	for _, s := range byClient {
		s.complete(l.model.options)
		starts = append(starts, *s)
	}
	slices.SortFunc(starts, func(a, b Start) int {
		return cmp.Or(cmp.Compare(b.FleetCPU, a.FleetCPU), cmp.Compare(a.Name(), b.Name()))
	})
	return starts
}

// complete sets the costs of a start of the whole fleet, and the advice on spreading it.
func (s *Start) complete(o *Options) {
	slices.SortFunc(s.Requests, func(a, b Request) int {
		return cmp.Or(cmp.Compare(b.Cost.CPU, a.Cost.CPU), cmp.Compare(b.PerStart, a.PerStart), cmp.Compare(a.Example(), b.Example()))
	})
	fleet := float64(s.Fleet)
	s.FleetCPU, s.FleetBytes = s.Cost.CPU*fleet, float64(s.Cost.Bytes)*fleet
	s.SimultaneousSeconds = s.FleetCPU / o.Cores
	s.MaxPerMinute = max(1, fleet*maxFleetFraction)
	isCPUBound := s.Cost.CPU > 0 && o.MaxCPU*60/s.Cost.CPU < s.MaxPerMinute
	if isCPUBound {
		s.MaxPerMinute = o.MaxCPU * 60 / s.Cost.CPU
	}
	s.SpreadSeconds = fleet / s.MaxPerMinute * 60
	if s.Fleet == 1 {
		s.Advice = "One instance."
		return
	}
	s.Advice = fmt.Sprintf("If all %d start together, %.0f cores are busy for %s with %s. %s %s",
		s.Fleet, o.Cores, display.Seconds(s.SimultaneousSeconds), display.Size(s.FleetBytes), s.boundText(o, isCPUBound), s.measure())
}

// boundText returns a sentence on MaxPerMinute and what bounds it.
func (s *Start) boundText(o *Options, isCPUBound bool) string {
	if isCPUBound {
		starts := display.Count(math.Floor(s.MaxPerMinute))
		if s.MaxPerMinute < 1 {
			starts = fmt.Sprintf("%.2g", s.MaxPerMinute)
		}
		return fmt.Sprintf("At most %s starts per minute stay below %s of a processor (--max-cpu).", starts, formatPercent(o.MaxCPU))
	}
	bound := "a tenth of the fleet"
	if s.MaxPerMinute == 1 {
		bound = "one at a time"
	}
	return fmt.Sprintf("CPU does not bound how fast instances start: %s per minute need %s of a processor, and --max-cpu allows %s. "+
		"At most %s per minute, %s, so that a bad version does not start everywhere at once.",
		display.Count(math.Floor(s.MaxPerMinute)), formatPercent(s.MaxPerMinute*s.Cost.CPU/60), formatPercent(o.MaxCPU),
		display.Count(math.Floor(s.MaxPerMinute)), bound)
}

// measure returns a sentence on how to spread starts. Only pods are replaced by a rollout. Their
// users are service accounts.
func (s *Start) measure() string {
	wait := fmt.Sprintf("a random wait of up to %s before the first LIST", display.Seconds(s.SpreadSeconds))
	switch {
	case s.User == auditlog.NodeUser:
		return fmt.Sprintf("Restart kubelets, and add nodes, over %s or more.", display.Seconds(s.SpreadSeconds))
	case strings.HasPrefix(s.User, serviceAccountPrefix):
		return fmt.Sprintf("That is %s for rollouts, and %s for everything else that starts instances together.", s.rollout(), wait)
	}
	return fmt.Sprintf("That is %s, where something starts instances together.", wait)
}

// podStartMinutes is the time in which a rollout replaces a pod.
const podStartMinutes = 0.5

// rollout returns the fields of a rollout that has at most MaxPerMinute starts per minute. Below
// two pods per minute, one pod at a time is too fast, and must wait.
func (s *Start) rollout() string {
	if pods := int(s.MaxPerMinute * podStartMinutes); pods > 0 {
		return fmt.Sprintf("rollingUpdate.maxUnavailable: %d", pods)
	}
	return fmt.Sprintf("rollingUpdate.maxUnavailable: 1 and minReadySeconds: %.0f", math.Ceil(60*(1/s.MaxPerMinute-podStartMinutes)))
}
