package slo

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// most is how many clients and subscriptions a report has, mostBehind how many
// watches.
const (
	most       = 50
	mostBehind = 100
)

// seen is a resource with what was gathered of it.
type seen struct {
	gathered
	told report.ResourceSLO
}

// SLO is /debug/millrace/slo.
func (x *Watches) SLO() report.SLOReport {
	now := x.cfg.Clock.Now()
	since := now.Sub(x.began)
	result := report.SLOReport{Time: now, Process: x.process.report(since), Probe: x.probe.report(x, now)}
	answers := x.feeds.tally(now).quantiles()
	etcd := report.StageTime{Stage: report.StageEtcd, Quantiles: answers}
	all := new(gathered)
	var resources []*seen
	for _, r := range x.resources() {
		s := new(seen)
		r.gather(&s.gathered, since)
		all.merge(&s.gathered)
		if s.spans.count > 0 {
			s.told = s.report(r.name, r.objective, &result.Process)
			s.told.Stages = slices.Insert(s.told.Stages, 0, etcd)
			resources = append(resources, s)
		}
	}
	slices.SortFunc(resources, func(a, b *seen) int {
		return cmp.Or(cmp.Compare(beyond(&b.told), beyond(&a.told)), cmp.Compare(a.told.Resource, b.told.Resource))
	})
	result.All = all.report("", x.cfg.Objectives.of(""), &result.Process)
	result.All.Stages = slices.Insert(result.All.Stages, 0, etcd)
	result.Resources = make([]report.ResourceSLO, len(resources))
	for i, s := range resources {
		result.Resources[i] = s.told
	}
	x.tellAll()
	clients := x.clients(since, &result.Process)
	result.Clients = clients[:min(most, len(clients))]
	result.Subscriptions = x.subscriptions(since)
	f := findings{set: x, now: now, report: &result, resources: resources, clients: clients}
	f.find()
	return result
}

// beyond is how far a resource is from its objective: more than 1 misses it.
func beyond(r *report.ResourceSLO) float64 { return r.Spans.P99 / r.Objective }

// resources are those that were watched.
func (x *Watches) resources() []*resourceAccount {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := make([]*resourceAccount, 0, len(x.mu.resources))
	for _, r := range x.mu.resources {
		list = append(list, r)
	}
	return list
}

// clients had events in the last minute, the slowest first.
func (x *Watches) clients(since time.Duration, p *report.Process) []report.ClientSLO {
	told := []report.ClientSLO{}
	sumUp(x, x.mu.clients, since, func(c *clientAccount, s *sums) {
		t := report.ClientSLO{Client: c.Client, Spans: s.spans, Late: s.late, Watches: s.watches, Events: s.events, Bytes: s.bytes}
		if i := largest(&s.lateBy); s.lateBy[i] > 0 {
			t.Cause = causeOf(p, i, t.Spans.P99)
		}
		told = append(told, t)
	})
	slices.SortFunc(told, func(a, b report.ClientSLO) int {
		return cmp.Or(cmp.Compare(b.Spans.P99, a.Spans.P99), cmp.Compare(b.Events, a.Events), cmp.Compare(a.User, b.User), cmp.Compare(a.UserAgent, b.UserAgent))
	})
	return told
}

func largest(counts *[spanStages]uint64) int {
	most := 0
	for i, n := range counts {
		if n > counts[most] {
			most = i
		}
	}
	return most
}

// subscriptions had events in the last minute, the slowest first.
func (x *Watches) subscriptions(since time.Duration) []report.SubscriptionSLO {
	told := []report.SubscriptionSLO{}
	sumUp(x, x.mu.subscriptions, since, func(a *subscriptionAccount, s *sums) {
		told = append(told, report.SubscriptionSLO{
			Resource: a.resource.name, Selection: a.selection, Watches: s.watches, Spans: s.spans, Events: s.events,
		})
	})
	slices.SortFunc(told, func(a, b report.SubscriptionSLO) int {
		return cmp.Or(cmp.Compare(b.Spans.P99, a.Spans.P99), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Selection, b.Selection))
	})
	return told[:min(most, len(told))]
}
