package top

import (
	"fmt"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// view is one page of the command, drawn from one or more reports.
type view struct {
	name string
	// needs lists the names of the reports. The server must serve the first report, except for the
	// overview.
	needs []string
	draw  func(*page, *reports)
}

// views returns all views in the order of their keys. The first is the overview.
func views() []view {
	return []view{
		{"overview", []string{"slo", "watchers", "lists", "memory", "feed", "replica"}, drawOverview},
		{"slo", []string{"slo", "replica"}, drawSLO},
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
		drawCauses(p, r)
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
			display.Seconds(s.All.ObjectiveSeconds), display.Count(s.All.Late), display.Count(s.All.Spans.Count), r.rates())
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
			health, style := feedHealth(&e)
			add(style, "etcd      %s  %s  answers p99 %s  revision %d", display.Clean(e.Prefix), health,
				display.Seconds(e.Delivery.P99), e.Revision)
		}
	}
	if u := r.Replica; u != nil {
		broken, refused := countUnfollowed(u)
		add(styleIf(broken > 0, critical), "Upstream  %s  %s answered here, %s asked  %s followed, %d broken, %d refused",
			display.Clean(u.Upstream), display.Count(total(u.Answered)), display.Count(total(u.UpstreamRequests)),
			display.Count(len(u.Followed)-refused), broken, refused)
	}
	return rows
}

// agent returns the user agent of a client.
func agent(c serverreport.Client) string {
	if c.UserAgent == "" {
		return "(no user agent)"
	}
	return c.UserAgent
}

// styleIf returns a style if a condition holds, otherwise plain.
func styleIf(condition bool, s style) style {
	if condition {
		return s
	}
	return plain
}
