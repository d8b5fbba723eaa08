package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// drawCauses draws the current problems, each with its message and advice: those of watch events,
// and those of a replica's reads.
func drawCauses(p *page, r *reports) {
	s := r.SLO
	causes := s.Causes
	if r.Replica != nil {
		causes = slices.Concat(causes, r.Replica.Causes)
	}
	switch {
	case len(causes) > 0:
		p.line(bold, "What is wrong now")
	case s.Met:
		p.line(good, "✓ Nothing is wrong: every objective is met.")
	default:
		p.line(warning, "! An objective was missed in the last minute; no cause is seen now.")
	}
	for _, c := range causes {
		mark, how := "!", warning
		if c.Severity == "critical" {
			mark, how = "✗", critical
		}
		subject := strings.TrimSpace(display.Clean(c.Resource) + "  " + display.Clean(c.Client))
		p.line(how, strings.TrimRight(fmt.Sprintf("%s %s (%s)  %s", mark, causeWords(c.Cause), display.Clean(c.Severity), subject), " "))
		p.paragraph(plain, "  ", display.Clean(c.Message))
		if c.Advice != "" {
			p.paragraph(accent, "  → ", display.Clean(c.Advice))
		}
	}
}

// drawSLO draws the current problems, the resources, and the slowest stages, clients and
// subscriptions.
func drawSLO(p *page, r *reports) {
	s := r.SLO
	drawCauses(p, r)
	p.title("By resource")
	drawResources(p, s.Resources)
	p.title("Stages of all events")
	rows := make([][]cell, 0, len(s.All.Stages))
	for _, st := range s.All.Stages {
		rows = append(rows, []cell{name(string(st.Stage)), text(display.Percent(st.Share)), seconds(st.P50), seconds(st.P99), seconds(st.P999), seconds(st.Max)})
	}
	p.table([]column{
		{head: "STAGE"}, {head: "SHARE", right: true}, {head: "P50", right: true}, {head: "P99", right: true}, {head: "P99.9", right: true}, {head: "MAX", right: true},
	}, rows)
	p.title("Slowest clients")
	rows = nil
	for _, c := range s.Clients {
		rows = append(rows, []cell{name(agent(c.Client)), seconds(c.Spans.P99), count(c.Late), count(c.Watches), text(causeWords(c.Cause)), name(c.User)})
	}
	p.table([]column{
		{head: "CLIENT", maxWidth: 40}, {head: "P99", right: true}, {head: "LATE", right: true}, {head: "WATCHES", right: true},
		{head: "WAITS FOR"}, {head: "USER", maxWidth: 50},
	}, rows)
	p.title("Slowest subscriptions")
	rows = nil
	for _, c := range s.Subscriptions {
		rows = append(rows, []cell{name(c.Resource), seconds(c.Spans.P99), count(c.Watches), count(c.Events), name(c.Selection)})
	}
	p.table([]column{
		{head: "RESOURCE", maxWidth: 40}, {head: "P99", right: true}, {head: "WATCHES", right: true}, {head: "EVENTS", right: true},
		{head: "SELECTION", maxWidth: 60},
	}, rows)
}

// drawResources draws a table with the objective of each resource, whether it is met, and the burn
// rates.
func drawResources(p *page, all []serverreport.ResourceSLO) {
	rows := make([][]cell, 0, len(all))
	for _, r := range all {
		met := cell{"✓ met", good}
		if !r.Met {
			met = cell{"✗ missed", critical}
		}
		rows = append(rows, []cell{
			name(r.Resource), met, flag(display.Seconds(r.Spans.P99), !r.Met, critical), seconds(r.ObjectiveSeconds), seconds(r.Spans.P50), seconds(r.Spans.P999),
			count(r.Late), count(r.Spans.Count), flag(display.BurnRate(r.Burn.FiveMinutes), r.Burn.FiveMinutes > 1, critical),
			text(display.BurnRate(r.Burn.Hour)), text(display.BurnRate(r.Burn.SixHours)),
			text(waitsFor(r)), size(r.Bytes),
		})
	}
	p.table([]column{
		{head: "RESOURCE", maxWidth: 40}, {head: "OBJECTIVE"}, {head: "P99", right: true}, {head: "OF", right: true}, {head: "P50", right: true}, {head: "P99.9", right: true},
		{head: "LATE", right: true}, {head: "EVENTS", right: true}, {head: "BURN5M", right: true}, {head: "1H", right: true}, {head: "6H", right: true}, {head: "WAITS FOR"}, {head: "SENT", right: true, wide: true},
	}, rows)
}

// waitsFor returns the main cause of late events in words, or "-" if none was late.
func waitsFor(r serverreport.ResourceSLO) string {
	if r.Late == 0 {
		return "-"
	}
	return causeWords(r.Cause)
}

// causeWords returns a cause in words, or "-" for none.
func causeWords(c serverreport.Cause) string {
	switch c {
	case "":
		return "-"
	case serverreport.CauseCPU:
		return "not enough CPU"
	case serverreport.CauseSize:
		return "large objects"
	case serverreport.CauseUnreadable:
		return "unreadable objects"
	case serverreport.CausePanic:
		return "panic"
	case serverreport.Cause(serverreport.StageEtcd):
		return "etcd is slow"
	case serverreport.Cause(serverreport.StageClient):
		return "clients do not read"
	case serverreport.Cause(serverreport.StageConnection):
		return "network is full"
	}
	return display.Clean(string(c))
}
