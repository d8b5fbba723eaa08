package watch

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// text returns the report in a format of tables.
func (r *report) text(format string) string {
	var events *render.Table
	if names := r.workloads(); len(names) > 0 {
		events = r.eventTable(names, format == render.Wide)
	}
	return render.Document(format, events, []render.TitledTable{r.comparedTable(), r.informerTable()}, r.footer())
}

// tableColumn is a column of a server. cell formats a result.
type tableColumn struct {
	title string
	wide  bool
	cell  func(*result) string
}

// floorColumns returns the columns that servers and the floor have.
func floorColumns() []tableColumn {
	return []tableColumn{
		costColumn("CPU µs/event", false, func(c *serverCost) string { return render.FormatNumber(c.EventMicros) }),
		spanColumn("p50 ms", func(l render.Latencies) float64 { return l.P50 }),
		spanColumn("p99 ms", func(l render.Latencies) float64 { return l.P99 }),
	}
}

// serverColumns returns the columns of a server.
func serverColumns() []tableColumn {
	cost := costColumn
	return append(floorColumns(),
		cost("CPU µs/open", false, func(c *serverCost) string { return render.FormatNumber(c.OpenMicros) }),
		cost("net µs/event", false, func(c *serverCost) string { return render.FormatNumber(c.NetMicros) }),
		cost("CPU s", false, func(c *serverCost) string { return render.FormatNumber(c.CPUSeconds) }),
		tableColumn{"bytes/event", false, func(r *result) string { return render.FormatNumber(r.BytesPerEvent) }},
		cost("µs/write alone", true, func(c *serverCost) string { return render.FormatNumber(c.AloneMicros) }),
		cost("RSS", true, func(c *serverCost) string { return render.FormatBytes(c.RSSBytes) }),
		cost("peak", true, func(c *serverCost) string { return render.FormatBytes(c.PeakBytes) }),
		tableColumn{"writes/s", true, func(r *result) string { return render.FormatNumber(r.WritesPerSec) }},
		tableColumn{"open s", true, func(r *result) string { return render.FormatNumber(r.OpenSeconds) }},
		tableColumn{"client µs/event", true, func(r *result) string { return render.FormatNumber(r.ClientCPUMicros) }})
}

// costColumn returns a column of a server's cost. A cell is "-" if the cost is not known.
func costColumn(title string, wide bool, value func(*serverCost) string) tableColumn {
	return tableColumn{title, wide, func(r *result) string {
		if r.Server == nil {
			return "-"
		}
		return value(r.Server)
	}}
}

// spanColumn returns a column of a percentile of spans.
func spanColumn(title string, value func(render.Latencies) float64) tableColumn {
	return tableColumn{title, false, func(r *result) string { return render.FormatNumber(value(r.Millis)) }}
}

// columnGroup has the columns of one server or of the floor.
type columnGroup struct {
	name    string
	floor   bool // the group of the floor, which is the last group
	columns []tableColumn
	find    func(workload string) *result // nil: not measured
}

// groups returns the column groups of the servers that have results, and of the floor.
func (r *report) groups() []columnGroup {
	var groups []columnGroup
	for _, s := range r.Servers {
		if len(s.Results) > 0 {
			find := func(name string) *result { return findResult(s.Results, name) }
			groups = append(groups, columnGroup{s.Name, false, serverColumns(), find})
		}
	}
	if len(r.Floor) > 0 {
		groups = append(groups, columnGroup{"floor", true, floorColumns(), func(name string) *result {
			if own := findResult(r.Floor, name); own != nil {
				return own
			}
			return r.floorOf(name)
		}})
	}
	return groups
}

// eventTable returns a table with a row for each workload.
func (r *report) eventTable(names []string, wide bool) *render.Table {
	t := &render.Table{Columns: render.ColumnsOf("workload", "watchers", "connections")}
	groups := r.groups()
	for _, g := range groups {
		for _, c := range g.columns {
			if wide || !c.wide {
				t.Columns = append(t.Columns, render.Column{Group: g.name, Title: c.title})
			}
		}
	}
	for _, p := range ratios(groups) {
		t.Columns = append(t.Columns, render.Column{Group: "CPU", Title: groups[p.numerator].name + "/" + groups[p.denominator].name})
	}
	for _, p := range openRatios(groups) {
		t.Columns = append(t.Columns, render.Column{Group: "CPU of opening", Title: groups[p.numerator].name + "/" + groups[p.denominator].name})
	}
	for _, name := range names {
		t.Add(eventRow(name, groups, wide)...)
	}
	return t
}

// eventRow returns the cells of a workload, and the ratios of CPU.
func eventRow(name string, groups []columnGroup, wide bool) []string {
	row := []string{name, "-", "-"}
	cpu, openCPU := make([]float64, len(groups)), make([]float64, len(groups))
	for i, g := range groups {
		res := g.find(name)
		for _, c := range g.columns {
			switch {
			case c.wide && !wide:
			case res == nil:
				row = append(row, "-")
			default:
				row = append(row, c.cell(res))
			}
		}
		if res == nil {
			continue
		}
		row[1], row[2] = fmt.Sprint(res.Watchers), fmt.Sprint(res.Connections)
		if res.Server != nil {
			cpu[i], openCPU[i] = res.Server.EventMicros, res.Server.OpenMicros
		}
	}
	for _, p := range ratios(groups) {
		row = append(row, render.FormatRatio(cpu[p.numerator], cpu[p.denominator]))
	}
	for _, p := range openRatios(groups) {
		row = append(row, render.FormatRatio(openCPU[p.numerator], openCPU[p.denominator]))
	}
	return row
}

// ratio compares two column groups by their indices.
type ratio struct{ numerator, denominator int }

// ratios returns the ratios of the further servers to the first, and of each server to the floor.
func ratios(groups []columnGroup) []ratio {
	var ratios []ratio
	servers := len(groups)
	if servers > 0 && groups[servers-1].floor {
		servers--
	}
	for i := 1; i < servers; i++ {
		ratios = append(ratios, ratio{i, 0})
	}
	for i := range servers {
		if servers < len(groups) {
			ratios = append(ratios, ratio{i, servers})
		}
	}
	return ratios
}

// openRatios returns the ratios without the floor, whose streams are not watches.
func openRatios(groups []columnGroup) []ratio {
	return slices.DeleteFunc(ratios(groups), func(r ratio) bool {
		return groups[r.numerator].floor || groups[r.denominator].floor
	})
}

// workloadPair compares a value of two workloads on the same server.
type workloadPair struct {
	name, numerator, denominator string
	value                        func(*result) float64
}

// workloadPairs returns the comparisons of comparedTable.
func workloadPairs() []workloadPair {
	bytes := func(r *result) float64 { return r.BytesPerEvent }
	p99 := func(r *result) float64 { return r.Millis.P99 }
	cost := func(value func(*serverCost) float64) func(*result) float64 {
		return func(r *result) float64 {
			if r.Server == nil {
				return 0
			}
			return value(r.Server)
		}
	}
	event := cost(func(c *serverCost) float64 { return c.EventMicros })
	net := cost(func(c *serverCost) float64 { return c.NetMicros })
	return []workloadPair{
		{"bytes/event", "gzip", "all-h2-20", bytes},
		{"CPU/event", "gzip", "all-h2-20", event},
		{"p99", "stalled", "all-h2-1000", p99},
		{"CPU/event", "names-4000", "names-1000", event},
		{"CPU/event", "names-8000", "names-1000", event},
		{"CPU/event", "nodes-5000", "nodes-1000", event},
		{"net CPU/event", "nodes-5000", "nodes-1000", net},
		{"CPU/event", "shards-16", "shards-1", event},
		{"net CPU/event", "shards-16", "shards-1", net},
		{"CPU/event", "shards-64", "shards-1", event},
		{"net CPU/event", "shards-64", "shards-1", net},
	}
}

// comparedTable returns a table with a row for each pair of workloads that both ran on a server.
func (r *report) comparedTable() render.TitledTable {
	t := render.TitledTable{Title: "Workloads compared with each other"}
	t.Table.Columns = render.ColumnsOf("ratio")
	for _, s := range r.Servers {
		t.Table.Columns = append(t.Table.Columns, render.Column{Title: s.Name})
	}
	for _, pair := range workloadPairs() {
		row := []string{fmt.Sprintf("%s: %s/%s", pair.name, pair.numerator, pair.denominator)}
		measured := 0
		for _, s := range r.Servers {
			numerator, denominator := findResult(s.Results, pair.numerator), findResult(s.Results, pair.denominator)
			if numerator == nil || denominator == nil {
				row = append(row, "-")
				continue
			}
			measured++
			row = append(row, render.FormatRatio(pair.value(numerator), pair.value(denominator)))
		}
		if measured > 0 {
			t.Table.Add(row...)
		}
	}
	return t
}

// informerTable returns a table of the informers on each server and on the floor.
func (r *report) informerTable() render.TitledTable {
	type result struct {
		server string
		*informersResult
	}
	var t render.TitledTable
	var results []result
	for _, s := range append(slices.Clone(r.Servers), serverReport{Name: "floor", Informers: r.FloorInformers}) {
		for i := range s.Informers {
			if m := &s.Informers[i]; m.Error == "" {
				results = append(results, result{s.Name, m})
				t.Title = fmt.Sprintf("Informers that start with a watch-list at once, every fourth slow for its first %s; "+
					"at least %s of rest before idle",
					render.FormatBytes(slowInformerBytes), r.Plan.Rest)
			}
		}
	}
	var fields render.Fields[result]
	fields.Add("workload", func(r result) string { return r.Workload })
	fields.Add("server", func(r result) string { return r.server })
	fields.Add("slow", func(r result) string { return fmt.Sprint(r.Slow) })
	fields.Add("objects", func(r result) string { return fmt.Sprint(r.Objects) })
	fields.Add("bytes each", func(r result) string { return render.FormatBytes(r.BodyBytes) })
	fields.Add("RSS ready", func(r result) string { return formatKnown(r.ReadyBytes) })
	fields.Add("idle", func(r result) string { return render.FormatBytes(r.IdleBytes) })
	fields.Add("peak", func(r result) string { return render.FormatBytes(r.PeakBytes) })
	fields.Add("after", func(r result) string { return formatKnown(r.AfterBytes) })
	fields.Add("server ms/MB", func(r result) string { return render.FormatNumber(r.CPUMillisPerMB) })
	fields.Add("client ms/MB", func(r result) string { return render.FormatNumber(r.ClientCPUMillisPerMB) })
	fields.Add("s", func(r result) string { return render.FormatNumber(r.Seconds) })
	fields.Add("fast s", func(r result) string { return render.FormatNumber(r.MedianSeconds) })
	t.Table = *fields.Table(results)
	return t
}

// formatKnown formats bytes. It returns "-" for 0, because older reports lack the value.
func formatKnown(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return render.FormatBytes(bytes)
}

// footer returns lines about the servers, the load, the data and the machine, and the notes.
func (r *report) footer() []string {
	var lines []string
	for _, s := range r.Servers {
		if s.Version == "" {
			continue // no workload ran on this server
		}
		line := s.Name + ": " + s.Version
		if s.StartMillis > 0 {
			line += fmt.Sprintf(", ready in %s s", render.FormatNumber(s.StartMillis/1000))
		}
		lines = append(lines, line)
	}
	lines = append(lines, fmt.Sprintf("%s of writes per workload after %s to warm up; spans start before the write is sent; "+
		"CPU is the server's, net without the CPU of the same writes without watchers; "+
		"opening a watch includes its connections and the %s after",
		r.Plan.Duration, r.Plan.Warmup, r.Plan.Settle))
	if r.Plan.Turns > 1 {
		lines = append(lines, fmt.Sprintf("medians of %d turns; each turn starts and measures every server", r.Plan.Turns))
	}
	for _, d := range r.Data {
		lines = append(lines, d.String())
	}
	if r.ExternalEtcd {
		lines = append(lines, testbed.ExternalEtcdNote)
	}
	if len(r.Floor)+len(r.FloorInformers) > 0 {
		lines = append(lines, "floor: Go's HTTP server writing the same bytes from memory, one handler per stream "+
			"(floor-tls: one goroutine for all connections); nothing is written to it")
	}
	lines = append(lines, r.Machine.String()+", "+r.Started.UTC().Format(time.RFC3339))
	return append(append(lines, r.interruptionNotes()...), r.Notes...)
}
