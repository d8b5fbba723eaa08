package top

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// view is one page of the command, drawn from one or more reports.
type view struct {
	name string
	// needs lists the names of the reports. The server must serve the first one, except for the
	// overview.
	needs []string
	draw  func(*page, *reports)
}

// views returns all views in the order of their keys. The first is the overview.
func views() []view {
	return []view{
		{"overview", []string{"slo", "watchers", "lists", "memory", "feed", "replica"}, drawOverview},
		{"slo", []string{"slo"}, func(p *page, r *reports) { drawSLO(p, r.SLO) }},
		{"watchers", []string{"watchers"}, func(p *page, r *reports) { drawWatchers(p, r.Watchers) }},
		{"lists", []string{"lists"}, func(p *page, r *reports) { drawLists(p, r.Lists) }},
		{"memory", []string{"memory"}, func(p *page, r *reports) { drawMemory(p, r.Memory) }},
		{"crds", []string{"crds"}, func(p *page, r *reports) { drawCRDs(p, r.CRDs) }},
		{"feed", []string{"feed", "slo"}, drawFeed},
		{"replica", []string{"replica"}, func(p *page, r *reports) { drawReplica(p, r.Replica) }},
	}
}

// drawOverview draws the current problems first. It leaves out the parts whose reports are missing.
func drawOverview(p *page, r *reports) {
	if r.SLO != nil {
		drawCauses(p, r.SLO)
	}
	p.blank()
	for _, f := range overviewFigures(r) {
		p.line(f.style, f.text)
	}
	if r.SLO != nil && len(r.SLO.Resources) > 0 {
		p.title("SLO")
		drawResources(p, r.SLO.Resources[:min(len(r.SLO.Resources), 8)])
	}
	if r.Watchers != nil && len(r.Watchers.Behind) > 0 {
		p.title("Furthest behind")
		drawBehind(p, r.Watchers.Behind[:min(len(r.Watchers.Behind), 5)])
	}
	if r.Lists != nil && len(r.Lists.Shapes) > 0 {
		p.title("Most expensive requests, last ten minutes")
		drawShapes(p, r.Lists.Shapes[:min(len(r.Lists.Shapes), 5)])
	}
}

// overviewFigures returns the lines of the overview: a line or more for each report.
func overviewFigures(r *reports) []cell {
	var rows []cell
	add := func(s style, format string, args ...any) { rows = append(rows, cell{fmt.Sprintf(format, args...), s}) }
	if s := r.SLO; s != nil {
		add(styleIf(!s.All.Met, critical), "Events    p50 %s  p99 %s  p99.9 %s  objective %s  late %s of %s%s",
			display.Seconds(s.All.Spans.P50), display.Seconds(s.All.Spans.P99), display.Seconds(s.All.Spans.P999),
			display.Seconds(s.All.Objective), display.Count(s.All.Late), display.Count(s.All.Spans.Count), r.rates())
		add(plain, "Process   %.1f of %d CPUs  timer delay p99 %s", s.Process.CPU, s.Process.Processors, display.Seconds(s.Process.Delay.P99))
	}
	if w := r.Watchers; w != nil {
		add(plain, "Watches   %s in %s subscriptions by %s clients  %s waiting  %s told to list again",
			display.Count(w.Watches), display.Count(w.Subscriptions), display.Count(w.Clients), display.Count(w.Waiting), display.Count(w.Expired))
	}
	if l := r.Lists; l != nil {
		add(plain, "Reads     %s GETs and LISTs  %s objects  %s  CPU %s",
			display.Count(l.Total.Requests), display.Count(l.Total.Objects), display.Size(l.Total.Bytes), display.Seconds(l.Total.CPU))
		for _, s := range l.Storms {
			if s.Ended.IsZero() {
				add(warning, "! Storm   %s of %s %s list %s  %s",
					display.Count(s.Clients), display.Count(s.Fleet), display.Clean(s.UserAgent), display.Clean(s.Resource), display.Size(s.Bytes))
			}
		}
	}
	if m := r.Memory; m != nil {
		add(plain, "Memory    %s of %s resident  heap %s  wire cache %s of %s",
			display.Size(m.Resident), display.Size(m.Limit), display.Size(m.Heap), display.Size(m.Wire), display.Size(m.WireLimit))
	}
	if f := r.Feed; f != nil {
		for _, e := range f.Feeds {
			words, how := feedHealth(&e)
			add(how, "etcd      %s  %s  answers p99 %s  revision %d", display.Clean(e.Prefix), words, display.Seconds(e.Delivery.P99), e.Revision)
		}
	}
	if u := r.Replica; u != nil {
		add(styleIf(brokenFeeds(u) > 0, critical), "Upstream  %s  %s answered here, %s asked  %s followed, %d broken",
			display.Clean(u.Upstream), display.Count(total(u.Answered)), display.Count(total(u.Asked)), display.Count(len(u.Followed)), brokenFeeds(u))
	}
	return rows
}

// drawCauses draws the current problems, each with its message and advice.
func drawCauses(p *page, s *serverreport.SLOReport) {
	switch {
	case len(s.Causes) > 0:
		p.line(bold, "What is wrong now")
	case s.Met:
		p.line(good, "✓ Nothing is wrong: every objective is met.")
	default:
		p.line(warning, "! An objective was missed in the last minute; no cause is seen now.")
	}
	for _, c := range s.Causes {
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
func drawSLO(p *page, s *serverreport.SLOReport) {
	drawCauses(p, s)
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
			name(r.Resource), met, flag(display.Seconds(r.Spans.P99), !r.Met, critical), seconds(r.Objective), seconds(r.Spans.P50), seconds(r.Spans.P999),
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

// drawWatchers draws the numbers of watches, the watches that lag the most, and the watches
// by resource.
func drawWatchers(p *page, w *serverreport.WatchersReport) {
	p.line(bold, fmt.Sprintf("%s watches in %s subscriptions by %s clients, %s waiting",
		display.Count(w.Watches), display.Count(w.Subscriptions), display.Count(w.Clients), display.Count(w.Waiting)))
	p.line(plain, fmt.Sprintf("%s events and %s sent since the start, %s told to list again",
		display.Count(w.Events), display.Size(w.Bytes), display.Count(w.Expired)))
	p.title("Furthest behind")
	if len(w.Behind) == 0 {
		p.line(dim, "none")
	} else {
		drawBehind(p, w.Behind)
	}
	p.title("By resource")
	rows := make([][]cell, 0, len(w.ByResource))
	for _, r := range w.ByResource {
		rows = append(rows, []cell{name(r.Resource), count(r.Watches), count(r.Subscriptions), count(r.LogEvents), size(r.LogBytes), seconds(r.LogSeconds)})
	}
	p.table([]column{
		{head: "RESOURCE", maxWidth: 50}, {head: "WATCHES", right: true}, {head: "SUBSCRIPTIONS", right: true}, {head: "LOG", right: true},
		{head: "BYTES", right: true}, {head: "REACHES BACK", right: true},
	}, rows)
}

// behindWarning is the lag from which a watch is marked, in seconds.
const behindWarning = 10

// drawBehind draws a table of watches that lag.
func drawBehind(p *page, all []serverreport.Watcher) {
	rows := make([][]cell, 0, len(all))
	for _, w := range all {
		rows = append(rows, []cell{
			name(agent(w.Client)), name(w.Resource), name(w.State),
			flag(display.Seconds(w.BehindSeconds), w.BehindSeconds > behindWarning, warning), count(w.BehindEvents), size(w.BehindBytes),
			seconds(w.Age), name(w.User), name(w.Address), name(w.Selection), name(w.Encoding), name(w.Protocol),
		})
	}
	p.table([]column{
		{head: "CLIENT", maxWidth: 28}, {head: "WATCHES", maxWidth: 30}, {head: "STATE"}, {head: "BEHIND", right: true}, {head: "EVENTS", right: true}, {head: "BYTES", right: true},
		{head: "AGE", right: true}, {head: "USER", maxWidth: 40}, {head: "ADDRESS"}, {head: "SELECTION", maxWidth: 50}, {head: "ENCODING", wide: true}, {head: "PROTOCOL", wide: true},
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

// agent returns the user agent of a client.
func agent(c serverreport.Client) string {
	if c.UserAgent == "" {
		return "(no user agent)"
	}
	return c.UserAgent
}

// styleIf returns a style if a condition holds, else plain.
func styleIf(condition bool, s style) style {
	if condition {
		return s
	}
	return plain
}
