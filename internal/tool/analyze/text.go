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

// allNotes returns the notes on a replica, on what the report rests on, and on its inputs.
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
	line("also", f.FurtherText())
	line("cost", f.Why)
	line("saves", r.savingText(i))
	line("now", code+cleanRequest(f.Request)+code)
	if f.Instead != "" {
		line("instead", strings.ReplaceAll(code+cleanRequest(f.Instead)+code, "\n", "  "))
	}
	line("setting", f.Setting)
	b.WriteString("\n")
}

// maxFurther bounds the collections that FurtherText names.
const maxFurther = 8

// FurtherText returns the names of the further collections of a finding.
func (f *Finding) FurtherText() string {
	named := strings.Join(f.FurtherCollections[:min(maxFurther, len(f.FurtherCollections))], "; ")
	if more := len(f.FurtherCollections) - maxFurther; more > 0 {
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

// addCost adds columns of the cost of values. The columns that matter most come first, because
// narrow terminals lack the last columns.
func addCost[T any](fields *render.Fields[T], cost func(T) *Cost) {
	add := func(title string, cell func(*Cost) string) {
		fields.Add(title, func(v T) string { return cell(cost(v)) })
	}
	add("CPU", func(c *Cost) string { return display.Seconds(c.CPU) })
	add("REQUESTS", func(c *Cost) string { return display.Count(c.Requests) })
	add("BYTES LOOKED AT", func(c *Cost) string { return display.Size(c.ScannedBytes) })
	add("BYTES SENT", func(c *Cost) string { return display.Size(c.Bytes) })
	add("LOOKED AT", func(c *Cost) string { return display.Count(c.Scanned) })
	add("RETURNED", func(c *Cost) string { return display.Count(c.Objects) })
	add("WITH A REPLICA", func(c *Cost) string { return display.Seconds(c.TierCPU) })
}

// tableName returns the name of a client for tables: with a service account, but without
// serviceAccountPrefix.
func tableName(c *serverreport.Client) string {
	return display.Clean(strings.Replace(c.Name(), "("+serviceAccountPrefix, "(", 1))
}

func (r *Report) clientTable(top int) render.Table {
	var fields render.Fields[ClientCost]
	fields.Add("CLIENT", func(c ClientCost) string { return tableName(&c.Client) })
	fields.Add("INSTANCES", func(c ClientCost) string { return display.Count(c.Fleet) })
	addCost(&fields, func(c ClientCost) *Cost { return &c.Cost })
	return *fields.Table(r.Clients[:min(top, len(r.Clients))])
}

// narrowProgram is the width of a program's name in tables of terminals.
const narrowProgram = 20

func (r *Report) shapeTable(top, width int) render.Table {
	var fields render.Fields[ShapeCost]
	fields.Add("REQUEST", func(s ShapeCost) string { return cleanRequest(s.Example()) })
	fields.Add("CLIENT", func(s ShapeCost) string {
		program := display.Clean(s.UserAgent)
		if width > 0 {
			return render.Shorten(program, narrowProgram)
		}
		return program
	})
	addCost(&fields, func(s ShapeCost) *Cost { return &s.Cost })
	fields.Add("FROM", func(s ShapeCost) string { return s.Source })
	fields.Add("ENCODING", func(s ShapeCost) string { return s.Encoding })
	return *fields.Table(r.Shapes[:min(top, len(r.Shapes))])
}

func (r *Report) startTable(top int) render.Table {
	var fields render.Fields[Start]
	fields.Add("CLIENT", func(s Start) string { return tableName(&s.Client) })
	fields.Add("INSTANCES", func(s Start) string { return display.Count(s.Fleet) })
	fields.Add("CPU PER START", func(s Start) string { return display.Seconds(s.Cost.CPU) })
	fields.Add("CPU OF THE FLEET", func(s Start) string { return display.Seconds(s.FleetCPU) })
	fields.Add("STARTS PER MINUTE", func(s Start) string { return display.Count(s.MaxPerMinute) })
	fields.Add("SPREAD OVER", func(s Start) string { return display.Seconds(s.SpreadSeconds) })
	fields.Add("SENT PER START", func(s Start) string { return display.Size(s.Cost.Bytes) })
	fields.Add("SENT TO THE FLEET", func(s Start) string { return display.Size(s.FleetBytes) })
	fields.Add("REQUESTS PER START", func(s Start) string {
		requests := 0.0
		for _, q := range s.Requests {
			requests += q.PerStart
		}
		return fmt.Sprintf("%.1f", requests)
	})
	fields.Add("STARTS SEEN", func(s Start) string { return display.Count(s.StartCount) })
	return *fields.Table(r.Starts[:min(top, len(r.Starts))])
}

// agentTable returns a table of the requests in one start, with rows for one start and for the
// start of the whole fleet.
func (s *Start) agentTable() render.Table {
	type row struct {
		request, times, source, encoding string
		cost                             Cost
	}
	var rows []row
	for _, q := range s.Requests {
		rows = append(rows, row{cleanRequest(q.Example()), fmt.Sprintf("%.1f", q.PerStart), q.Source, q.Encoding, q.Cost})
	}
	rows = append(rows,
		row{request: "one start", cost: s.Cost},
		row{request: fmt.Sprintf("× %d instances", s.Fleet), cost: s.Cost.times(float64(s.Fleet))})
	var fields render.Fields[row]
	fields.Add("REQUEST", func(r row) string { return r.request })
	fields.Add("TIMES", func(r row) string { return r.times })
	fields.Add("FROM", func(r row) string { return r.source })
	fields.Add("ENCODING", func(r row) string { return r.encoding })
	addCost(&fields, func(r row) *Cost { return &r.cost })
	return *fields.Table(rows)
}

// agentText returns the report on the starts of clients, with every request that an instance sends.
// Lines have up to width characters. A width of 0 is unbounded.
func (r *Report) agentText(format string, width int) string {
	var tables []render.TitledTable
	for i := range r.Starts {
		s := &r.Starts[i]
		t := s.agentTable()
		t.Fit(width)
		tables = append(tables, render.TitledTable{Title: fmt.Sprintf("%s: mean of %d starts", display.Clean(s.Name()), s.StartCount), Table: t})
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
