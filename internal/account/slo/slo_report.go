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

// SLO returns the report that /debug/millrace/slo serves.
func (set *Watches) SLO() serverreport.SLOReport {
	now := set.cfg.Clock.Now()
	offset := now.Sub(set.startedAt)
	report := serverreport.SLOReport{Time: now, Process: set.process.report(offset), Probe: set.probe.report(set, now)}
	// etcd's times are measured for each feed, not for each resource. So all rows have the
	// same ones.
	etcd := serverreport.StageTime{Stage: serverreport.StageEtcd, Quantiles: set.feeds.tally(now).quantiles()}
	total := new(minuteSums)
	var resources []*resourceResult
	for _, r := range set.resources() {
		resource := new(resourceResult)
		r.addMinute(&resource.minuteSums, offset)
		total.merge(&resource.minuteSums)
		if resource.spans.count > 0 {
			resource.row = resource.report(r.name, r.objective, &report.Process)
			resource.row.Stages = slices.Insert(resource.row.Stages, 0, etcd)
			resources = append(resources, resource)
		}
	}
	slices.SortFunc(resources, func(a, b *resourceResult) int {
		return cmp.Or(cmp.Compare(objectiveRatio(&b.row), objectiveRatio(&a.row)), cmp.Compare(a.row.Resource, b.row.Resource))
	})
	report.All = total.report("", set.cfg.Objectives.forOthers(), &report.Process)
	report.All.Stages = slices.Insert(report.All.Stages, 0, etcd)
	report.Resources = make([]serverreport.ResourceSLO, len(resources))
	for i, resource := range resources {
		report.Resources[i] = resource.row
	}
	set.flushBuffers()
	clients := set.clients(offset, &report.Process)
	// The findings look at all clients, the report shows maxRows.
	report.Clients = clients[:min(maxRows, len(clients))]
	report.Subscriptions = set.subscriptions(offset)
	f := findings{set: set, now: now, report: &report, resources: resources, clients: clients}
	f.find()
	return report
}

// objectiveRatio returns the p99 as a multiple of the objective.
func objectiveRatio(r *serverreport.ResourceSLO) float64 { return r.Spans.P99 / r.ObjectiveSeconds }

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

// clients returns all clients with spans in the last minute, the largest p99 first.
func (set *Watches) clients(offset time.Duration, p *serverreport.Process) []serverreport.ClientSLO {
	rows := []serverreport.ClientSLO{}
	eachActive(set, set.mu.clients, offset, func(c *clientAccount, s *coarseSums) {
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
func largest(counts *[spanStageCount]uint64) int {
	index := 0
	for i, n := range counts {
		if n > counts[index] {
			index = i
		}
	}
	return index
}

// subscriptions returns up to maxRows subscriptions with spans in the last minute, the largest
// p99 first.
func (set *Watches) subscriptions(offset time.Duration) []serverreport.SubscriptionSLO {
	rows := []serverreport.SubscriptionSLO{}
	eachActive(set, set.mu.subscriptions, offset, func(a *subscriptionAccount, s *coarseSums) {
		rows = append(rows, serverreport.SubscriptionSLO{
			Resource: a.resource.name, Selection: a.selection, Watches: s.watches, Spans: s.spans, Events: s.events,
		})
	})
	slices.SortFunc(rows, func(a, b serverreport.SubscriptionSLO) int {
		return cmp.Or(cmp.Compare(b.Spans.P99, a.Spans.P99), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Selection, b.Selection))
	})
	return rows[:min(maxRows, len(rows))]
}
