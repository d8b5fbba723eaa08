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
	// Seen is the number of starts in the log. Cost is the mean cost of one start.
	Seen     int       `json:"seen"`
	Cost     Cost      `json:"cost"`
	Requests []Request `json:"requests"`
	// FleetCPU, in seconds, and FleetBytes are the cost of a start of the whole fleet. AtOnce is
	// the time, in seconds, for which a server with Options.Cores is busy if all start together.
	FleetCPU   float64 `json:"fleetCPU"`
	FleetBytes float64 `json:"fleetBytes"`
	AtOnce     float64 `json:"atOnce"`
	// PerMinute is the most starts a minute that keep the server below Options.MaxCPU, and that
	// are no more than a tenth of the fleet. Spread is the time in which the fleet then starts, in
	// seconds.
	PerMinute float64 `json:"perMinute"`
	Spread    float64 `json:"spread"`
	Advice    string  `json:"advice"`
}

// Request is a request that an instance sends when it starts.
type Request struct {
	SentShape
	// PerStart is the mean number of these requests in one start.
	PerStart float64 `json:"perStart"`
	// Cost is the cost of PerStart requests.
	Cost Cost `json:"cost"`
}

// fleetShare bounds the part of a fleet that starts in a minute, for Start.PerMinute.
const fleetShare = 0.1

// starts returns the costs of the starts of clients, the most expensive fleet first. It leaves out
// clients without a start in the log.
func (l *ledger) starts() []Start {
	byClient := map[serverreport.Client]*Start{}
	for _, r := range l.rows {
		who := l.clients[r.Client]
		if r.cell.atStart == 0 || who.starts == 0 || r.Version == "" {
			continue
		}
		s := byClient[r.Client]
		if s == nil {
			s = &Start{Client: r.Client, Fleet: who.fleet, Seen: int(who.starts)}
			byClient[r.Client] = s
		}
		perStart := float64(r.cell.atStart) / float64(who.starts)
		one := l.model.costOf(&r.Shape, r.isInitial(), perStart)
		s.Cost.add(&one)
		s.Requests = append(s.Requests, Request{SentShape: r.SentShape, PerStart: perStart, Cost: one})
	}
	all := make([]Start, 0, len(byClient))
	for _, s := range byClient {
		s.complete(l.model.options)
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Start) int {
		return cmp.Or(cmp.Compare(b.FleetCPU, a.FleetCPU), cmp.Compare(a.Name(), b.Name()))
	})
	return all
}

// complete sets the costs of a start of the whole fleet, and the advice how to spread it.
func (s *Start) complete(o *Options) {
	slices.SortFunc(s.Requests, func(a, b Request) int {
		return cmp.Or(cmp.Compare(b.Cost.CPU, a.Cost.CPU), cmp.Compare(b.PerStart, a.PerStart), cmp.Compare(a.Example(), b.Example()))
	})
	fleet := float64(s.Fleet)
	s.FleetCPU, s.FleetBytes = s.Cost.CPU*fleet, float64(s.Cost.Bytes)*fleet
	s.AtOnce = s.FleetCPU / o.Cores
	s.PerMinute = max(1, fleet*fleetShare)
	isCPUBound := s.Cost.CPU > 0 && o.MaxCPU*60/s.Cost.CPU < s.PerMinute
	if isCPUBound {
		s.PerMinute = o.MaxCPU * 60 / s.Cost.CPU
	}
	s.Spread = fleet / s.PerMinute * 60
	if s.Fleet == 1 {
		s.Advice = "One instance."
		return
	}
	s.Advice = fmt.Sprintf("If all %d start together, %.0f cores are busy for %s with %s. %s %s",
		s.Fleet, o.Cores, display.Seconds(s.AtOnce), display.Size(s.FleetBytes), s.boundText(o, isCPUBound), s.measure())
}

// boundText returns a sentence on the most starts a minute, and what bounds them.
func (s *Start) boundText(o *Options, isCPUBound bool) string {
	if isCPUBound {
		most := display.Count(math.Floor(s.PerMinute))
		if s.PerMinute < 1 {
			most = fmt.Sprintf("%.2g", s.PerMinute)
		}
		return fmt.Sprintf("At most %s starts a minute keep that below %s of a processor (--max-cpu).", most, formatShare(o.MaxCPU))
	}
	bound := "a tenth of the fleet"
	if s.PerMinute == 1 {
		bound = "one at a time"
	}
	return fmt.Sprintf("CPU does not bound how fast they start: %s a minute need %s of a processor, and --max-cpu allows %s. "+
		"At most %s a minute, %s, so that a bad version does not start everywhere at once.",
		display.Count(math.Floor(s.PerMinute)), formatShare(s.PerMinute*s.Cost.CPU/60), formatShare(o.MaxCPU),
		display.Count(math.Floor(s.PerMinute)), bound)
}

// measure returns a sentence on how to spread starts. Only pods, which have a service account, are
// replaced by a rollout.
func (s *Start) measure() string {
	wait := fmt.Sprintf("a random wait of up to %s before the first LIST", display.Seconds(s.Spread))
	switch {
	case s.User == auditlog.NodeUser:
		return fmt.Sprintf("Restart kubelets, and add nodes, over %s or more.", display.Seconds(s.Spread))
	case strings.HasPrefix(s.User, serviceAccountPrefix):
		return fmt.Sprintf("That is %s for rollouts, and %s for everything else that starts them together.", s.rollout(), wait)
	}
	return fmt.Sprintf("That is %s, where something starts them together.", wait)
}

// podStartMinutes is the time in which a rollout replaces a pod.
const podStartMinutes = 0.5

// rollout returns the fields of a rollout that has at most PerMinute starts a minute. Below two pods a
// minute, one pod at a time is too fast, and must wait.
func (s *Start) rollout() string {
	if most := int(s.PerMinute * podStartMinutes); most > 0 {
		return fmt.Sprintf("rollingUpdate.maxUnavailable: %d", most)
	}
	return fmt.Sprintf("rollingUpdate.maxUnavailable: 1 and minReadySeconds: %.0f", math.Ceil(60*(1/s.PerMinute-podStartMinutes)))
}
