package papers

import (
	"fmt"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/tool/display"
)

const (
	stepEvents    = "events"
	stepProvision = "provision"
	// provisionName is the name of the objects of stepProvision.
	provisionName = "paper-b"
	// podsB are how many pods are provisioned, nodesB on how many nodes, and podWatchersB how
	// many watch all of them.
	podsB, nodesB, podWatchersB = 1000, 100, 20
)

// watchersB are the workloads of "bench watch" that are run, with what they are.
func watchersB() [][2]string {
	return [][2]string{
		{"all-h2-20", "1,000 watchers of 20 config maps, 20 connections"},
		{"gzip", "the same, gzip"},
		{"all-h2-1000", "the same, 1,000 connections"},
		{"names-4000", "4,000 watchers of one name each"},
		{"nodes-1000", "1,000 watchers of the pods of one node each"},
	}
}

// paperB is watch events end to end.
func paperB() *Paper {
	return &Paper{
		Name: "b", Title: "Watch events end to end in extremely large clusters",
		Original: "A service level for watches: 99 of 100 events leave the API server within 1 s after they have entered it. In clusters of 100,000 pods that time went from 5 s to 0.5 s, the provisioning of 1,000 pods from 34.43 to 14.05 s for 95 of 100 pods, and an API server's bandwidth from 20 to 7.5 GB.",
		Differs: []string{
			"Times are from before a write to the receipt of its event, so that they hold for any server: they contain the write and the client.",
			"A watch that the server ends, as the stock code does with a client that reads too slowly, is resumed behind its last event. What came late by that is in the times.",
			"20 to 100 writes/s. The publication's load is not known.",
			"Pods are provisioned on 100 hollow nodes, each with kubelet, kube-proxy and two agents, and in no cluster of 100,000 pods. No containers start. Scheduler and controllers are Kubernetes' own.",
		},
		Scale: 1, Minutes: "3 minutes",
		steps: func(s size) []step {
			args := []string{"watch", "--compare", "--external-etcd", fmt.Sprintf("--scale=%g", s.scale), s.flag("duration", 5*time.Second), s.flag("warmup", time.Second), s.flag("settle", time.Second)}
			for _, w := range watchersB() {
				args = append(args, "--workloads="+w[0])
			}
			return []step{{name: stepEvents, args: args}, {stepProvision, provisionArgs(s), provisionFlags()}}
		},
		view: viewB,
	}
}

func provisionArgs(s size) []string {
	return []string{
		"provision", "--name=" + provisionName, "--pods=" + s.of(podsB, 1), "--nodes=" + s.of(nodesB, 1), "--agents=network,exporter",
		"--watchers=" + strconv.Itoa(podWatchersB), s.flag("settle", time.Second),
	}
}

func viewB(r *results) []Section {
	return append(eventSections(r), provisionSection(r))
}

// eventSections are what watchers see, and what that costs.
func eventSections(r *results) []Section {
	d := r.of(stepEvents)
	times := Section{Title: "From a write to its events", Note: "The service level is 1 s for 99 of 100 events, of the time in the API server alone."}
	costs := Section{Title: "What an event costs", Note: "CPU of the server for an event at one watcher, with its share of the write: a thousandth where all watch the same, else the whole. Bytes as sent, before TLS."}
	if r.scale != 1 {
		times.Note += fmt.Sprintf(" The numbers of watchers are those below times %g.", r.scale)
	}
	for _, w := range watchersB() {
		row := Row{Name: w[1] + ": p99", Unit: unitMillis, Values: d.requests(w[0], func(q *requestResult) float64 { return q.Millis.P99 })}
		if w[0] == watchersB()[0][0] {
			row.Published = "5 s, then 0.5 s"
		}
		times.add(row)
		times.add(Row{Name: w[1] + ": p50", Unit: unitMillis, Values: d.requests(w[0], p50Millis)})
		costs.add(Row{Name: w[1] + ": CPU", Unit: unitMicros, Values: d.requests(w[0], func(q *requestResult) float64 {
			if q.Server == nil {
				return 0
			}
			return q.Server.EventMicros
		})})
		costs.add(Row{Name: w[1] + ": bytes", Unit: unitSize, Values: d.requests(w[0], func(q *requestResult) float64 { return q.BytesPerEvent })})
	}
	return []Section{times, costs}
}

// provisionSection is pods from their creation until they run.
func provisionSection(r *results) Section {
	d := r.of(stepProvision)
	pods := scaled(podsB, r.scale, 1)
	s := Section{
		Title: fmt.Sprintf("%s from creation to running, on %s", display.Plural(pods, "pod"), display.Plural(scaled(nodesB, r.scale, 1), "node")),
		Note:  fmt.Sprintf("Deployments are made all at once. %d watchers see all pods. CPU, memory and bytes are those from the first creation until every watcher knows that all pods run.", podWatchersB),
	}
	if r.scale != 1 {
		s.Title += fmt.Sprintf(" (published: %d pods)", podsB)
	}
	steps := func(step string, of func(*quantiles) float64) map[string]float64 {
		return d.paths(func(p *setupResult) float64 {
			q := p.Steps[step]
			return of(&q)
		})
	}
	costs := func(of func(*partCost) float64) map[string]float64 {
		return d.paths(func(p *setupResult) float64 {
			for i := range p.Costs {
				if p.Costs[i].Part == "server" {
					return of(&p.Costs[i])
				}
			}
			return 0
		})
	}
	s.add(Row{Name: "created → running: p50", Unit: unitSeconds, Values: steps("provision", func(q *quantiles) float64 { return q.P50 / 1000 })})
	s.add(Row{Name: "created → running: p95", Unit: unitSeconds, Published: "34.43 s, then 14.05 s", Values: steps("provision", func(q *quantiles) float64 { return q.P95 / 1000 })})
	s.add(Row{Name: "created → running: p99", Unit: unitSeconds, Values: steps("provision", func(q *quantiles) float64 { return q.P99 / 1000 })})
	s.add(Row{Name: "all run, and every watcher knows", Unit: unitSeconds, Values: d.paths(func(p *setupResult) float64 { return p.Seconds })})
	s.add(Row{Name: "a pod's write → its delivery: p50", Unit: unitMillis, Values: steps("watch", func(q *quantiles) float64 { return q.P50 })})
	s.add(Row{Name: "a pod's write → its delivery: p99", Unit: unitMillis, Values: steps("watch", func(q *quantiles) float64 { return q.P99 })})
	s.add(Row{Name: "CPU of the server", Unit: unitSeconds, Values: costs(func(c *partCost) float64 { return c.CPUSeconds })})
	s.add(Row{Name: "most memory of the server", Unit: unitBytes, Values: costs(func(c *partCost) float64 { return float64(c.PeakBytes) })})
	s.add(Row{Name: "bytes that the server sent", Unit: unitBytes, Published: "20 GB, then 7.5 GB", Values: costs(func(c *partCost) float64 { return float64(c.SentBytes) })})
	s.add(Row{Name: "requests", Unit: unitCount, Values: d.paths(func(p *setupResult) float64 { return float64(p.Requests) })})
	return s
}
