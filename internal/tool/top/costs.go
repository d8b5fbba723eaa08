package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

func drawLists(p *page, l *serverreport.ListsReport) {
	p.line(bold, fmt.Sprintf("%s GETs and LISTs since the start: %s objects of %s scanned, %s, CPU %s", display.Count(l.Total.Requests), display.Count(l.Total.Objects), display.Count(l.Total.Scanned), display.Size(l.Total.Bytes), display.Seconds(l.Total.CPU)))
	pacing := "off (--pace-relists)"
	if l.Pacing {
		pacing = fmt.Sprintf("on, %s requests were held back", display.Count(l.Paced))
	}
	p.line(plain, "Pacing of relists is "+pacing)
	drawTranscoding(p, l.Transcoding)
	for _, s := range l.Storms {
		state, how := "for "+display.Seconds(l.Time.Sub(s.Began).Seconds()), warning
		if !s.Ended.IsZero() {
			state, how = "ended "+display.Seconds(l.Time.Sub(s.Ended).Seconds())+" ago", dim
		}
		p.blank()
		p.line(how, fmt.Sprintf("! Storm: %s of %s %s list %s, %s requests, %s, %s", display.Count(s.Clients), display.Count(s.Fleet), display.Clean(s.UserAgent), display.Clean(s.Resource), display.Count(s.Requests), display.Size(s.Bytes), state))
		p.paragraph(accent, "  → ", display.Clean(s.Advice))
	}
	p.title("By request, last ten minutes")
	drawShapes(p, l.Shapes)
	for i := range l.Shapes {
		drawAdvice(p, strings.ToUpper(l.Shapes[i].Verb)+" "+l.Shapes[i].Resource, l.Shapes[i].Advice)
	}
	p.title("By client, last ten minutes")
	rows := make([][]cell, 0, len(l.Clients))
	for _, c := range l.Clients {
		rows = append(rows, append([]cell{name(agent(c.Client)), name(c.User)}, append(costCells(&c.ListCost), name(shapeWords(&c.Top)))...))
	}
	p.table(append(append([]column{{head: "CLIENT", maxWidth: 30}, {head: "USER", maxWidth: 36}}, costColumns()...), column{head: "MOSTLY", maxWidth: 70}), rows)
	for i := range l.Clients {
		drawAdvice(p, agent(l.Clients[i].Client), l.Clients[i].Advice)
	}
}

func drawTranscoding(p *page, t *serverreport.TranscodingCounts) {
	if t == nil {
		p.line(plain, "Kubernetes encodes all objects (--transcode=false)")
		return
	}
	p.line(plain, fmt.Sprintf("Objects encoded: %s from stored bytes, %s both ways and equal, %s different, %s refuted, %s declined, %s normalized; %s combinations of fields proven",
		display.Count(t.Transcoded), display.Count(t.Compared), display.Count(t.Different), display.Count(t.Refuted), display.Count(t.Declined), display.Count(t.Normalized), display.Count(t.Proven)))
	if d := t.Last; d != nil {
		p.line(styleIf(d.Stopped, critical), fmt.Sprintf("Last difference: %s, revision %d of %s, at %s", display.Clean(d.Form), d.Revision, display.Clean(d.Key), display.Clean(d.Place)))
	}
}

func drawAdvice(p *page, subject string, advice []string) {
	for _, a := range advice {
		p.paragraph(accent, "  → ", display.Clean(subject)+": "+display.Clean(a))
	}
}

func costColumns() []column {
	return []column{{head: "CPU", right: true}, {head: "REQUESTS", right: true}, {head: "PASSED ON", right: true}, {head: "OBJECTS", right: true}, {head: "SCANNED", right: true}, {head: "BYTES", right: true}, {head: "MEAN", right: true}}
}

func costCells(c *serverreport.ListCost) []cell {
	return []cell{text(display.Seconds(c.CPU)), text(display.Count(c.Requests)), text(passedOnPart(c.PassedOn, c.Requests)), text(display.Count(c.Objects)), text(display.Count(c.Scanned)), text(display.Size(c.Bytes)), text(display.Seconds(c.Seconds / max(1, float64(c.Requests))))}
}

// passedOnPart is the part of some requests that were passed on.
func passedOnPart(passedOn, requests uint64) string {
	return display.Percent(float64(passedOn) / max(1, float64(requests)))
}

func drawShapes(p *page, shapes []serverreport.ListShape) {
	rows := make([][]cell, 0, len(shapes))
	for i := range shapes {
		s := &shapes[i]
		how := plain
		if s.Path == "scan" {
			how = warning
		}
		rows = append(rows, append([]cell{name(strings.ToUpper(s.Verb) + " " + s.Resource), {display.Clean(strings.TrimSpace(s.Path + " " + s.Reason)), how}}, append(costCells(&s.ListCost), name(shapeDetails(&s.Shape)))...))
	}
	p.table(append(append([]column{{head: "REQUEST", maxWidth: 40}, {head: "FOUND BY", maxWidth: 30}}, costColumns()...), column{head: "SHAPE", maxWidth: 90}), rows)
}

func shapeWords(s *serverreport.Shape) string {
	return strings.ToUpper(s.Verb) + " " + s.Resource + ", " + shapeDetails(s)
}

func shapeDetails(s *serverreport.Shape) string {
	words := []string{s.Version, s.Scope, s.Selectors, "revision " + s.Revision, s.Encoding}
	if s.Limit > 0 {
		words = append(words, fmt.Sprintf("limit %d", s.Limit))
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}

func drawMemory(p *page, m *serverreport.MemoryReport) {
	p.line(bold, fmt.Sprintf("%s of %s resident, heap %s", display.Size(m.Resident), display.Size(m.Limit), display.Size(m.Heap)))
	p.line(plain, fmt.Sprintf("wire cache %s of %s, %s goroutines", display.Size(m.Wire), display.Size(m.WireLimit), display.Count(m.Goroutines)))
	p.blank()
	rows := make([][]cell, 0, len(m.Resources))
	for _, r := range m.Resources {
		var wire int64
		forms := slices.SortedFunc(maps.Keys(r.Forms), func(a, b string) int { return cmp.Or(cmp.Compare(r.Forms[b], r.Forms[a]), cmp.Compare(a, b)) })
		for i, f := range forms {
			wire += r.Forms[f]
			forms[i] = f + " " + display.Size(r.Forms[f])
		}
		rows = append(rows, []cell{
			name(r.Resource), text(display.Count(r.Objects)), text(display.Size(r.Values + r.Log + wire)), text(display.Size(r.Values)), text(display.Size(r.Log)), text(display.Size(wire)),
			name(strings.Join(forms, ", ")), name(strings.Join(r.Indexes, ", ")),
		})
	}
	p.table([]column{
		{head: "RESOURCE", maxWidth: 50}, {head: "OBJECTS", right: true}, {head: "TOTAL", right: true}, {head: "VALUES", right: true}, {head: "LOG", right: true}, {head: "WIRE", right: true},
		{head: "FORMS", maxWidth: 50}, {head: "INDEXES", maxWidth: 50},
	}, rows)
}

func drawCRDs(p *page, c *serverreport.CRDsReport) {
	p.line(bold, fmt.Sprintf("%s definitions, %s in use, %s compiled: %s of %s", display.Count(c.Definitions), display.Count(c.Served), display.Count(c.Compiled), display.Size(c.CompiledBytes), display.Size(c.CompiledLimit)))
	p.blank()
	rows := make([][]cell, 0, len(c.Top))
	for _, d := range c.Top {
		conversion := "none"
		if d.Webhook {
			conversion = "webhook"
		}
		rows = append(rows, []cell{name(d.Name), text(display.Count(d.Objects)), text(display.Size(d.DefinitionBytes + d.ObjectBytes + d.CompiledBytes)), text(display.Size(d.DefinitionBytes)), text(display.Size(d.ObjectBytes)), text(display.Size(d.CompiledBytes)), text(conversion)})
	}
	p.table([]column{{head: "DEFINITION", maxWidth: 60}, {head: "OBJECTS", right: true}, {head: "TOTAL", right: true}, {head: "DEFINITION", right: true}, {head: "OBJECTS' BYTES", right: true}, {head: "COMPILED", right: true}, {head: "CONVERSION"}}, rows)
}

func drawFeed(p *page, r *reports) {
	rows := make([][]cell, 0, len(r.Feed.Feeds))
	for _, f := range r.Feed.Feeds {
		words, how := feedHealth(&f)
		rows = append(rows, []cell{
			name(f.Prefix), {words, how}, text(fmt.Sprint(f.Revision)), text(display.Seconds(f.Delivery.P50)), text(display.Seconds(f.Delivery.P99)), text(display.Seconds(f.Delivery.Max)),
			text(display.Count(f.Events)), text(display.Size(f.Bytes)), text(display.Count(f.Restarts)), text(display.Count(f.Loads)), name(strings.Join(f.Endpoints, ",")),
		})
	}
	p.table([]column{
		{head: "PREFIX"}, {head: "HEALTH", maxWidth: 60}, {head: "REVISION", right: true}, {head: "P50", right: true}, {head: "P99", right: true}, {head: "MAX", right: true},
		{head: "EVENTS", right: true}, {head: "BYTES", right: true}, {head: "RESTARTS", right: true}, {head: "LOADS", right: true}, {head: "ETCD"},
	}, rows)
	if r.SLO == nil {
		return
	}
	p.blank()
	if probe := r.SLO.Probe; probe == nil {
		p.line(dim, "Probe     none (--watch-probe)")
	} else {
		state := "works"
		if probe.Error != "" {
			state = display.Clean(probe.Error)
		}
		p.line(styleIf(probe.Error != "", critical), fmt.Sprintf("Probe     %s  write to client p50 %s  p99 %s  of it after the answer p99 %s  pending %s", state, display.Seconds(probe.Whole.P50), display.Seconds(probe.Whole.P99), display.Seconds(probe.Commit.P99), display.Seconds(probe.Pending)))
	}
	s := r.SLO.Process
	p.line(plain, fmt.Sprintf("Process   %.2f of %d CPUs  timer delay p50 %s  p99 %s  max %s", s.CPU, s.Processors, display.Seconds(s.Delay.P50), display.Seconds(s.Delay.P99), display.Seconds(s.Delay.Max)))
}

func feedHealth(f *serverreport.Feed) (string, style) {
	switch {
	case f.Error != "":
		return "✗ " + display.Clean(f.Error), critical
	case f.Late > 0:
		return "! late " + display.Seconds(f.Late), warning
	}
	return "✓ in time", good
}
