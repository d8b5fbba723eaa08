package analyze

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
)

// text returns the report as text, with up to top findings, and up to top rows in each table.
func (r *Report) text(format string, top int) string {
	var b strings.Builder
	r.writeHead(&b)
	for i := range r.Findings[:min(top, len(r.Findings))] {
		r.Findings[i].write(&b, i+1, r.Seconds, format)
	}
	if hidden := len(r.Findings) - top; hidden > 0 {
		fmt.Fprintf(&b, "%d smaller findings: raise --top.\n", hidden)
	}
	if len(r.Findings) == 0 {
		b.WriteString("No client could do better, as far as the log shows.\n")
	}
	b.WriteString("\n")
	tables := []render.TitledTable{
		{Title: "By client", Table: r.clientTable(top)},
		{Title: "By request", Table: r.shapeTable(top)},
		{Title: "Starts: one instance, and the fleet at once", Table: r.startTable(top)},
	}
	b.WriteString(render.Document(format, nil, tables, slices.Clone(r.Notes)))
	return b.String()
}

// writeHead writes the sums of the report.
func (r *Report) writeHead(b *strings.Builder) {
	t := &r.Total
	fmt.Fprintf(b, "%s requests in %s, from %s\n", display.Count(t.Requests), display.Seconds(r.Seconds), r.From.Format("2006-01-02 15:04:05 UTC"))
	fmt.Fprintf(b, "Reads cost the API server an estimated %s of CPU (%.2f processors): %s objects (%s) looked at, %s (%s) sent\n",
		display.Seconds(t.CPU), t.CPU/r.Seconds, display.Count(t.Scanned), display.Size(t.ScannedBytes), display.Count(t.Objects), display.Size(t.Bytes))
	if t.CPU > 0 && r.savedCPU() > 0 {
		fmt.Fprintf(b, "The findings below would save %s of it. Millrace would need %s for all reads\n",
			display.Percent(r.savedCPU()*r.Seconds/t.CPU), display.Seconds(t.TierCPU))
	}
	if r.Replica != nil && r.Replica.Reads > 0 {
		fmt.Fprintf(b, "%s\n", r.Replica.Text())
	}
	b.WriteString("\n")
}

// write writes a finding as text. period is the period of the report, in seconds.
func (f *Finding) write(b *strings.Builder, number int, period float64, format string) {
	var bold, code string
	if format == render.Markdown {
		bold, code = "**", "`"
	}
	fmt.Fprintf(b, "%s%d. %s: %s%s\n", bold, number, f.Kind, f.Sentence, bold)
	if format == render.Markdown {
		b.WriteString("\n")
	}
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(b, "   - %-8s %s\n", name, text)
		}
	}
	line("also", f.AlsoText())
	line("cost", f.Why)
	if f.Kind != kindAdvice {
		line("saves", fmt.Sprintf("%s of CPU (%.3f processors), %s", display.Seconds(f.SavedCPU), f.SavedCPU/period, display.Size(f.SavedBytes)))
	}
	line("now", code+cleanRequest(f.Request)+code)
	if f.Instead != "" {
		line("instead", strings.ReplaceAll(code+cleanRequest(f.Instead)+code, "\n", "  "))
	}
	line("setting", f.Setting)
	b.WriteString("\n")
}

// maxAlso bounds the collections that AlsoText names.
const maxAlso = 8

// AlsoText returns the names of the further collections of a finding.
func (f *Finding) AlsoText() string {
	named := strings.Join(f.Also[:min(maxAlso, len(f.Also))], "; ")
	if more := len(f.Also) - maxAlso; more > 0 {
		named += fmt.Sprintf("; and %d more", more)
	}
	return named
}

// cleanRequest escapes a request for a terminal. It escapes the parameters one by one, because a
// request may have two lines, and may be longer than the names that display.Clean cuts.
func cleanRequest(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		var parts []string
		for _, part := range strings.SplitAfter(line, "&") {
			parts = append(parts, display.Clean(part))
		}
		lines[i] = strings.Join(parts, "")
	}
	return strings.Join(lines, "\n")
}

// costColumns returns columns with names, and then the columns of Cost.cells.
func costColumns(names ...string) []render.Column {
	return render.ColumnsOf(append(names, "CPU", "REQUESTS", "LOOKED AT", "RETURNED", "BYTES LOOKED AT", "BYTES SENT", "WITH A REPLICA")...)
}

func (c *Cost) cells() []string {
	return []string{
		display.Seconds(c.CPU), display.Count(c.Requests), display.Count(c.Scanned), display.Count(c.Objects),
		display.Size(c.ScannedBytes), display.Size(c.Bytes), display.Seconds(c.TierCPU),
	}
}

func (r *Report) clientTable(top int) render.Table {
	t := render.Table{Columns: costColumns("CLIENT", "INSTANCES")}
	for i := range r.Clients[:min(top, len(r.Clients))] {
		c := &r.Clients[i]
		t.Add(append([]string{display.Clean(c.Name()), display.Count(c.Fleet)}, c.cells()...)...)
	}
	return t
}

func (r *Report) shapeTable(top int) render.Table {
	t := render.Table{Columns: costColumns("REQUEST", "CLIENT", "FROM", "ENCODING")}
	for i := range r.Shapes[:min(top, len(r.Shapes))] {
		s := &r.Shapes[i]
		t.Add(append([]string{cleanRequest(s.Example()), display.Clean(s.UserAgent), s.Source, s.Encoding}, s.Cost.cells()...)...)
	}
	return t
}

func (r *Report) startTable(top int) render.Table {
	t := render.Table{Columns: render.ColumnsOf(
		"CLIENT", "INSTANCES", "STARTS SEEN", "REQUESTS A START", "CPU A START", "SENT A START",
		"CPU OF THE FLEET", "SENT TO THE FLEET", "STARTS A MINUTE", "SPREAD OVER",
	)}
	for i := range r.Starts[:min(top, len(r.Starts))] {
		s := &r.Starts[i]
		requests := 0.0
		for _, q := range s.Requests {
			requests += q.PerStart
		}
		t.Add(display.Clean(s.Name()), display.Count(s.Fleet), display.Count(s.Seen),
			fmt.Sprintf("%.1f", requests), display.Seconds(s.Cost.CPU), display.Size(s.Cost.Bytes),
			display.Seconds(s.FleetCPU), display.Size(s.FleetBytes), display.Count(s.PerMinute), display.Seconds(s.Spread))
	}
	return t
}

// agentText returns the report on the starts of clients, with every request that an instance sends.
// It has the objects that the server looks at, and those that the client receives.
func (r *Report) agentText(format string) string {
	var tables []render.TitledTable
	for i := range r.Starts {
		s := &r.Starts[i]
		t := render.Table{Columns: costColumns("REQUEST", "TIMES", "FROM", "ENCODING")}
		for _, q := range s.Requests {
			t.Add(append([]string{cleanRequest(q.Example()), fmt.Sprintf("%.1f", q.PerStart), q.Source, q.Encoding}, q.Cost.cells()...)...)
		}
		t.Add(append([]string{"one start", "", "", ""}, s.Cost.cells()...)...)
		fleet := s.Cost.times(float64(s.Fleet))
		t.Add(append([]string{fmt.Sprintf("× %d instances", s.Fleet), "", "", ""}, fleet.cells()...)...)
		tables = append(tables, render.TitledTable{Title: fmt.Sprintf("%s: mean of %d starts", display.Clean(s.Name()), s.Seen), Table: t})
	}
	notes := slices.Clone(r.Notes)
	for i := range r.Starts {
		notes = append(notes, display.Clean(r.Starts[i].Name())+": "+r.Starts[i].Advice)
	}
	return render.Document(format, nil, tables, notes)
}

// times returns the cost of n times as many requests.
func (c *Cost) times(n float64) Cost {
	scale := func(v uint64) uint64 { return uint64(float64(v) * n) }
	l := c.ListCost
	return Cost{ListCost: serverreport.ListCost{
		Requests: scale(l.Requests), Objects: scale(l.Objects), Scanned: scale(l.Scanned),
		ScannedBytes: scale(l.ScannedBytes), Bytes: scale(l.Bytes), CPU: l.CPU * n, Seconds: l.Seconds * n,
	}, Errors: scale(c.Errors), TierCPU: c.TierCPU * n}
}
