package slo

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// maxRows bounds the clients and the subscriptions of a report.
const maxRows = 50

// resourceResult is a resource's row, and the sums that it was made from.
type resourceResult struct {
	minuteSums
	row serverreport.ResourceSLO
}

// SLO makes /debug/millrace/slo.
func (set *Watches) SLO() serverreport.SLOReport {
	now := set.cfg.Clock.Now()
	since := now.Sub(set.began)
	result := serverreport.SLOReport{Time: now, Process: set.process.report(since), Probe: set.probe.report(set, now)}
	answers := set.feeds.tally(now).quantiles()
	etcd := serverreport.StageTime{Stage: serverreport.StageEtcd, Quantiles: answers}
	all := new(minuteSums)
	var resources []*resourceResult
	for _, r := range set.resources() {
		res := new(resourceResult)
		r.addMinute(&res.minuteSums, since)
		all.merge(&res.minuteSums)
		if res.spans.count > 0 {
			res.row = res.report(r.name, r.objective, &result.Process)
			res.row.Stages = slices.Insert(res.row.Stages, 0, etcd)
			resources = append(resources, res)
		}
	}
	slices.SortFunc(resources, func(a, b *resourceResult) int {
		return cmp.Or(cmp.Compare(excess(&b.row), excess(&a.row)), cmp.Compare(a.row.Resource, b.row.Resource))
	})
	result.All = all.report("", set.cfg.Objectives.of(""), &result.Process)
	result.All.Stages = slices.Insert(result.All.Stages, 0, etcd)
	result.Resources = make([]serverreport.ResourceSLO, len(resources))
	for i, res := range resources {
		result.Resources[i] = res.row
	}
	set.flushPeers()
	clients := set.clients(since, &result.Process)
	result.Clients = clients[:min(maxRows, len(clients))]
	result.Subscriptions = set.subscriptions(since)
	f := findings{set: set, now: now, report: &result, resources: resources, clients: clients}
	f.find()
	return result
}

// excess is the p99 as a multiple of the objective. Above 1 the objective is missed.
func excess(r *serverreport.ResourceSLO) float64 { return r.Spans.P99 / r.Objective }

// resources returns the accounts of resources, in no order.
func (set *Watches) resources() []*resourceAccount {
	set.mu.Lock()
	defer set.mu.Unlock()
	list := make([]*resourceAccount, 0, len(set.mu.resources))
	for _, r := range set.mu.resources {
		list = append(list, r)
	}
	return list
}

// clients returns all clients with events in the last minute, the slowest first.
func (set *Watches) clients(since time.Duration, p *serverreport.Process) []serverreport.ClientSLO {
	rows := []serverreport.ClientSLO{}
	eachActive(set, set.mu.clients, since, func(c *clientAccount, s *sharedSums) {
		row := serverreport.ClientSLO{Client: c.Client, Spans: s.spans, Late: s.late, Watches: s.watches, Events: s.events, Bytes: s.bytes}
		if i := largest(&s.lateBy); s.lateBy[i] > 0 {
			row.Cause = causeOf(p, i, row.Spans.P99)
		}
		rows = append(rows, row)
	})
	slices.SortFunc(rows, func(a, b serverreport.ClientSLO) int {
		return cmp.Or(cmp.Compare(b.Spans.P99, a.Spans.P99), cmp.Compare(b.Events, a.Events), cmp.Compare(a.User, b.User), cmp.Compare(a.UserAgent, b.UserAgent))
	})
	return rows
}

// largest returns the index of the largest count.
func largest(counts *[spanStages]uint64) int {
	at := 0
	for i, n := range counts {
		if n > counts[at] {
			at = i
		}
	}
	return at
}

// subscriptions returns up to maxRows subscriptions with events in the last minute, the
// slowest first.
func (set *Watches) subscriptions(since time.Duration) []serverreport.SubscriptionSLO {
	rows := []serverreport.SubscriptionSLO{}
	eachActive(set, set.mu.subscriptions, since, func(a *subscriptionAccount, s *sharedSums) {
		rows = append(rows, serverreport.SubscriptionSLO{
			Resource: a.resource.name, Selection: a.selection, Watches: s.watches, Spans: s.spans, Events: s.events,
		})
	})
	slices.SortFunc(rows, func(a, b serverreport.SubscriptionSLO) int {
		return cmp.Or(cmp.Compare(b.Spans.P99, a.Spans.P99), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Selection, b.Selection))
	})
	return rows[:min(maxRows, len(rows))]
}
