package analyze

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
)

// text returns the report as text, with up to top findings, and up to top rows in each table. Lines
// of a terminal have up to width characters. A width of 0 is unbounded.
func (r *Report) text(format string, top, width int) string {
	var b strings.Builder
	for _, line := range r.head() {
		b.WriteString(render.Wrap(line, "", width) + "\n")
	}
	b.WriteString("\n")
	for i := range r.Findings[:min(top, len(r.Findings))] {
		r.writeFinding(&b, i, width, format)
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
		{Title: "By request", Table: r.shapeTable(top, width)},
		{Title: "Starts: one instance, and the fleet at once", Table: r.startTable(top)},
	}
	for i := range tables {
		tables[i].Table.Fit(width)
	}
	notes := wrapAll(r.allNotes(), width)
	b.WriteString(render.Document(format, nil, tables, notes))
	if first := r.RepairFirst(); first != "" && format == render.Terminal { // the head may have scrolled away
		b.WriteString("\n" + render.Wrap(first, "", width) + "\n")
	}
	return b.String()
}

// allNotes returns the notes of the report: on what it rests, and on its inputs.
func (r *Report) allNotes() (all []string) {
	if r.Replica != nil && r.Replica.Reads > 0 {
		all = append(all, r.Replica.Text()+".")
	}
	return append(append(all, r.Notes...), r.Run.InputNotes...)
}

// wrapAll wraps each of some texts.
func wrapAll(texts []string, width int) []string {
	wrapped := make([]string, len(texts))
	for i, text := range texts {
		wrapped[i] = render.Wrap(text, "", width)
	}
	return wrapped
}

// writeFinding writes a finding as text. i is its index.
func (r *Report) writeFinding(b *strings.Builder, i, width int, format string) {
	var bold, code string
	if format == render.Markdown {
		bold, code = "**", "`"
	}
	f := &r.Findings[i]
	b.WriteString(render.Wrap(fmt.Sprintf("%s%d. %s: %s%s", bold, i+1, f.Kind, f.Sentence, bold), "   ", width) + "\n")
	if format == render.Markdown {
		b.WriteString("\n")
	}
	line := func(name, text string) {
		if text != "" {
			b.WriteString(render.Wrap(fmt.Sprintf("   - %-8s %s", name, text), strings.Repeat(" ", 14), width) + "\n")
		}
	}
	line("also", f.AlsoText())
	line("cost", f.Why)
	line("saves", r.savingText(i))
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

// costColumns returns columns with names, and then the columns of Cost.cells. Those that matter
// most come first, because narrow terminals lack the last ones.
func costColumns(names ...string) []render.Column {
	return render.ColumnsOf(append(names, "CPU", "REQUESTS", "BYTES LOOKED AT", "BYTES SENT", "LOOKED AT", "RETURNED", "WITH A REPLICA")...)
}

func (c *Cost) cells() []string {
	return []string{
		display.Seconds(c.CPU), display.Count(c.Requests), display.Size(c.ScannedBytes), display.Size(c.Bytes),
		display.Count(c.Scanned), display.Count(c.Objects), display.Seconds(c.TierCPU),
	}
}

// tableName returns the name of a client for tables: with a service account, but without its prefix.
func tableName(c *serverreport.Client) string {
	return display.Clean(strings.Replace(c.Name(), "("+serviceAccountPrefix, "(", 1))
}

func (r *Report) clientTable(top int) render.Table {
	t := render.Table{Columns: costColumns("CLIENT", "INSTANCES")}
	for i := range r.Clients[:min(top, len(r.Clients))] {
		c := &r.Clients[i]
		t.Add(append([]string{tableName(&c.Client), display.Count(c.Fleet)}, c.cells()...)...)
	}
	return t
}

// narrowProgram is the width of a program's name in tables of terminals.
const narrowProgram = 20

func (r *Report) shapeTable(top, width int) render.Table {
	t := render.Table{Columns: append(costColumns("REQUEST", "CLIENT"), render.ColumnsOf("FROM", "ENCODING")...)}
	for i := range r.Shapes[:min(top, len(r.Shapes))] {
		s := &r.Shapes[i]
		program := display.Clean(s.UserAgent)
		if width > 0 {
			program = render.Shorten(program, narrowProgram)
		}
		t.Add(append(append([]string{cleanRequest(s.Example()), program}, s.Cost.cells()...), s.Source, s.Encoding)...)
	}
	return t
}

func (r *Report) startTable(top int) render.Table {
	t := render.Table{Columns: render.ColumnsOf(
		"CLIENT", "INSTANCES", "CPU A START", "CPU OF THE FLEET", "STARTS A MINUTE", "SPREAD OVER",
		"SENT A START", "SENT TO THE FLEET", "REQUESTS A START", "STARTS SEEN",
	)}
	for i := range r.Starts[:min(top, len(r.Starts))] {
		s := &r.Starts[i]
		requests := 0.0
		for _, q := range s.Requests {
			requests += q.PerStart
		}
		t.Add(tableName(&s.Client), display.Count(s.Fleet), display.Seconds(s.Cost.CPU), display.Seconds(s.FleetCPU),
			display.Count(s.PerMinute), display.Seconds(s.Spread), display.Size(s.Cost.Bytes), display.Size(s.FleetBytes),
			fmt.Sprintf("%.1f", requests), display.Count(s.Seen))
	}
	return t
}

// agentText returns the report on the starts of clients, with every request that an instance sends.
// It has the objects that the server looks at, and those that the client receives. width is as that
// of text.
func (r *Report) agentText(format string, width int) string {
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
		t.Fit(width)
		tables = append(tables, render.TitledTable{Title: fmt.Sprintf("%s: mean of %d starts", display.Clean(s.Name()), s.Seen), Table: t})
	}
	notes := r.headNotes()
	for i := range r.Starts {
		notes = append(notes, display.Clean(r.Starts[i].Name())+": "+r.Starts[i].Advice)
	}
	notes = append(append(notes, r.Notes...), r.Run.InputNotes...)
	return render.Document(format, nil, tables, wrapAll(notes, width))
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
