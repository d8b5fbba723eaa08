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

// drawLists draws what GETs and LISTs cost: sums, storms, shapes of requests and clients, with
// advice below each table.
func drawLists(p *page, l *serverreport.ListsReport) {
	p.line(bold, fmt.Sprintf("%s GETs and LISTs since the start: %s objects of %s scanned, %s, CPU %s",
		display.Count(l.Total.Requests), display.Count(l.Total.Objects), display.Count(l.Total.Scanned), display.Size(l.Total.Bytes), display.Seconds(l.Total.CPU)))
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
		p.line(how, fmt.Sprintf("! Storm: %s of %s %s list %s, %s requests, %s, %s", display.Count(s.Clients), display.Count(s.Fleet),
			display.Clean(s.UserAgent), display.Clean(s.Resource), display.Count(s.Requests), display.Size(s.Bytes), state))
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
		rows = append(rows, slices.Concat([]cell{name(agent(c.Client)), name(c.User)}, costCells(&c.ListCost), []cell{name(shapeWords(&c.Top))}))
	}
	p.table(slices.Concat([]column{{head: "CLIENT", maxWidth: 30}, {head: "USER", maxWidth: 36}}, costColumns(), []column{{head: "MOSTLY", maxWidth: 70}}), rows)
	for i := range l.Clients {
		drawAdvice(p, agent(l.Clients[i].Client), l.Clients[i].Advice)
	}
}

// drawTranscoding draws how objects were encoded, and the last difference that was found. t is nil
// if the server does not transcode.
func drawTranscoding(p *page, t *serverreport.TranscodingCounts) {
	if t == nil {
		p.line(plain, "Kubernetes encodes all objects (--transcode=false)")
		return
	}
	p.line(plain, fmt.Sprintf("Objects encoded: %s from stored bytes, %s both ways and equal, %s different, %s refuted, %s declined, %s normalized; "+
		"%s combinations of fields proven", display.Count(t.Transcoded), display.Count(t.Compared), display.Count(t.Different),
		display.Count(t.Refuted), display.Count(t.Declined), display.Count(t.Normalized), display.Count(t.Proven)))
	if d := t.Last; d != nil {
		p.line(styleIf(d.Stopped, critical), fmt.Sprintf("Last difference: %s, revision %d of %s, at %s",
			display.Clean(d.Form), d.Revision, display.Clean(d.Key), display.Clean(d.Place)))
	}
}

// drawAdvice draws a paragraph for each advice on a subject.
func drawAdvice(p *page, subject string, advice []string) {
	for _, a := range advice {
		p.paragraph(accent, "  → ", display.Clean(subject)+": "+display.Clean(a))
	}
}

// costColumns returns the columns of costCells.
func costColumns() []column {
	return []column{
		{head: "CPU", right: true}, {head: "REQUESTS", right: true}, {head: "PASSED ON", right: true}, {head: "OBJECTS", right: true},
		{head: "SCANNED", right: true}, {head: "BYTES", right: true}, {head: "MEAN", right: true},
	}
}

func costCells(c *serverreport.ListCost) []cell {
	return []cell{
		seconds(c.CPU), count(c.Requests), text(passedOnShare(c.PassedOn, c.Requests)), count(c.Objects),
		count(c.Scanned), size(c.Bytes), seconds(c.Seconds / max(1, float64(c.Requests))),
	}
}

// passedOnShare returns the share of requests that were passed on, as text.
func passedOnShare(passedOn, requests uint64) string {
	return display.Percent(float64(passedOn) / max(1, float64(requests)))
}

// drawShapes draws a table with a row for each shape of requests.
func drawShapes(p *page, shapes []serverreport.ListShape) {
	rows := make([][]cell, 0, len(shapes))
	for i := range shapes {
		s := &shapes[i]
		how := plain
		if s.Path == "scan" {
			how = warning
		}
		request, foundBy := name(strings.ToUpper(s.Verb)+" "+s.Resource), cell{display.Clean(strings.TrimSpace(s.Path + " " + s.Reason)), how}
		rows = append(rows, slices.Concat([]cell{request, foundBy}, costCells(&s.ListCost), []cell{name(shapeDetails(&s.Shape))}))
	}
	p.table(slices.Concat([]column{{head: "REQUEST", maxWidth: 40}, {head: "FOUND BY", maxWidth: 30}}, costColumns(), []column{{head: "SHAPE", maxWidth: 90}}), rows)
}

// shapeWords returns a shape with its verb and resource as text.
func shapeWords(s *serverreport.Shape) string {
	return strings.ToUpper(s.Verb) + " " + s.Resource + ", " + shapeDetails(s)
}

// shapeDetails returns a shape without its verb and resource as text.
func shapeDetails(s *serverreport.Shape) string {
	words := []string{s.Version, s.Scope, s.Selectors, "revision " + s.Revision, s.Encoding}
	if s.Limit > 0 {
		words = append(words, fmt.Sprintf("limit %d", s.Limit))
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}

// drawMemory draws the memory of the process, and of the cache by resource.
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
			name(r.Resource), count(r.Objects), size(r.Values + r.Log + wire), size(r.Values), size(r.Log), size(wire),
			name(strings.Join(forms, ", ")), name(strings.Join(r.Indexes, ", ")),
		})
	}
	p.table([]column{
		{head: "RESOURCE", maxWidth: 50}, {head: "OBJECTS", right: true}, {head: "TOTAL", right: true}, {head: "VALUES", right: true}, {head: "LOG", right: true}, {head: "WIRE", right: true},
		{head: "FORMS", maxWidth: 50}, {head: "INDEXES", maxWidth: 50},
	}, rows)
}

// drawCRDs draws the memory of definitions of custom resources and of their objects.
func drawCRDs(p *page, c *serverreport.CRDsReport) {
	p.line(bold, fmt.Sprintf("%s definitions, %s in use, %s compiled: %s of %s",
		display.Count(c.Definitions), display.Count(c.Served), display.Count(c.Compiled), display.Size(c.CompiledBytes), display.Size(c.CompiledLimit)))
	p.blank()
	rows := make([][]cell, 0, len(c.Top))
	for _, d := range c.Top {
		conversion := "none"
		if d.Webhook {
			conversion = "webhook"
		}
		rows = append(rows, []cell{
			name(d.Name), count(d.Objects), size(d.DefinitionBytes + d.ObjectBytes + d.CompiledBytes),
			size(d.DefinitionBytes), size(d.ObjectBytes), size(d.CompiledBytes), text(conversion),
		})
	}
	p.table([]column{
		{head: "DEFINITION", maxWidth: 60}, {head: "OBJECTS", right: true}, {head: "TOTAL", right: true},
		{head: "DEFINITION", right: true}, {head: "OBJECTS' BYTES", right: true}, {head: "COMPILED", right: true}, {head: "CONVERSION"},
	}, rows)
}

// drawFeed draws the feeds from etcd, and below them the probe and the process, if the server has
// an SLO report.
func drawFeed(p *page, r *reports) {
	rows := make([][]cell, 0, len(r.Feed.Feeds))
	for _, f := range r.Feed.Feeds {
		words, how := feedHealth(&f)
		rows = append(rows, []cell{
			name(f.Prefix), {words, how}, text(fmt.Sprint(f.Revision)), seconds(f.Delivery.P50), seconds(f.Delivery.P99), seconds(f.Delivery.Max),
			count(f.Events), size(f.Bytes), count(f.Restarts), count(f.Loads), name(strings.Join(f.Endpoints, ",")),
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
		p.line(styleIf(probe.Error != "", critical), fmt.Sprintf("Probe     %s  write to client p50 %s  p99 %s  of it after the answer p99 %s  pending %s", state,
			display.Seconds(probe.Whole.P50), display.Seconds(probe.Whole.P99), display.Seconds(probe.Commit.P99), display.Seconds(probe.Pending)))
	}
	s := r.SLO.Process
	p.line(plain, fmt.Sprintf("Process   %.2f of %d CPUs  timer delay p50 %s  p99 %s  max %s",
		s.CPU, s.Processors, display.Seconds(s.Delay.P50), display.Seconds(s.Delay.P99), display.Seconds(s.Delay.Max)))
}

// feedHealth returns the state of a feed in words, and their style.
func feedHealth(f *serverreport.Feed) (string, style) {
	switch {
	case f.Error != "":
		return "✗ " + display.Clean(f.Error), critical
	case f.Late > 0:
		return "! late " + display.Seconds(f.Late), warning
	}
	return "✓ in time", good
}
