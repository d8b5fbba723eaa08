package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// drawLists draws what GETs and LISTs cost: sums, storms, shapes of requests and clients, with
// advice below each table.
func drawLists(p *page, l *serverreport.ListsReport) {
	p.line(bold, fmt.Sprintf("%s GETs and LISTs since the start: %s objects of %s scanned, %s, CPU %s",
		display.Count(l.Total.Requests), display.Count(l.Total.Objects), display.Count(l.Total.Scanned),
		display.Size(l.Total.Bytes), display.Seconds(l.Total.CPU)))
	pacing := "off (start the server with --pace-relists)"
	if l.Pacing {
		pacing = fmt.Sprintf("on, %s requests were held back", display.Count(l.Paced))
	}
	p.line(plain, "Pacing of relists is "+pacing)
	drawTranscoding(p, l.Transcoding)
	for _, s := range l.Storms {
		state, style := "for "+display.Seconds(l.Time.Sub(s.Began).Seconds()), warning
		if !s.Ended.IsZero() {
			state, style = "ended "+display.Seconds(l.Time.Sub(s.Ended).Seconds())+" ago", dim
		}
		p.blank()
		p.line(style, fmt.Sprintf("! Storm: %s of %s %s list %s, %s requests, %s, %s", display.Count(s.Clients), display.Count(s.Fleet),
			display.Clean(s.UserAgent), display.Clean(s.Resource), display.Count(s.Requests), display.Size(s.Bytes), state))
		p.paragraph(accent, "  → ", display.Clean(s.Advice))
	}
	p.title("By request, last ten minutes")
	drawShapes(p, l.Shapes)
	for i := range l.Shapes {
		drawAdvice(p, strings.ToUpper(l.Shapes[i].Verb)+" "+l.Shapes[i].Resource, l.Shapes[i].Advice)
	}
	p.title("By client, last ten minutes")
	type client = serverreport.ListClient
	drawTable(p, l.Clients, slices.Concat(
		[]field[client]{
			textField("CLIENT", 30, func(c *client) cell { return name(agent(c.Client)) }),
			textField("USER", 36, func(c *client) cell { return name(c.User) }),
		},
		costFields(func(c *client) *serverreport.ListCost { return &c.ListCost }),
		[]field[client]{textField("MOSTLY", 70, func(c *client) cell { return name(shapeWords(&c.Top)) })},
	))
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
	p.line(plain, fmt.Sprintf("Objects encoded: %s from stored bytes, %s both ways and equal, %s different, %s refuted, %s "+
		"declined, %s normalized; "+
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

// costFields returns the fields of the cost of values.
func costFields[T any](cost func(*T) *serverreport.ListCost) []field[T] {
	number := func(head string, format func(*serverreport.ListCost) cell) field[T] {
		return numberField(head, func(v *T) cell { return format(cost(v)) })
	}
	type listCost = serverreport.ListCost
	return []field[T]{
		number("CPU", func(c *listCost) cell { return seconds(c.CPU) }),
		number("REQUESTS", func(c *listCost) cell { return count(c.Requests) }),
		number("PASSED ON", func(c *listCost) cell { return text(passedOnPercent(c.PassedOn, c.Requests)) }),
		number("OBJECTS", func(c *listCost) cell { return count(c.Objects) }),
		number("SCANNED", func(c *listCost) cell { return count(c.Scanned) }),
		number("BYTES", func(c *listCost) cell { return size(c.Bytes) }),
		number("MEAN", func(c *listCost) cell { return seconds(c.Seconds / max(1, float64(c.Requests))) }),
	}
}

// passedOnPercent returns the percentage of requests that were passed on, as text.
func passedOnPercent(passedOn, requests uint64) string {
	return display.Percent(float64(passedOn) / max(1, float64(requests)))
}

// drawShapes draws a table with a row for each shape of requests.
func drawShapes(p *page, shapes []serverreport.ListShape) {
	type shape = serverreport.ListShape
	drawTable(p, shapes, slices.Concat(
		[]field[shape]{
			textField("REQUEST", 40, func(s *shape) cell { return name(strings.ToUpper(s.Verb) + " " + s.Resource) }),
			textField("FOUND BY", 30, func(s *shape) cell {
				return flag(display.Clean(strings.TrimSpace(s.Path+" "+s.Reason)), s.Path == "scan", warning)
			}),
		},
		costFields(func(s *shape) *serverreport.ListCost { return &s.ListCost }),
		[]field[shape]{textField("SHAPE", 90, func(s *shape) cell { return name(shapeDetails(&s.Shape)) })},
	))
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
