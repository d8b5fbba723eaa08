package watch

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// text renders the report as "table", "wide" or "markdown".
func (r *report) text(format string) string {
	var events *render.Table
	if names := r.workloads(); len(names) > 0 {
		events = r.eventTable(names, format == "wide")
	}
	return render.Document(format, events, []render.TitledTable{r.comparedTable(), r.informerTable()}, r.footer())
}

// tableCell is a column of a server. cell formats a result.
type tableCell struct {
	title string
	wide  bool
	cell  func(*result) string
}

// floorCells are the columns that servers and the floor have.
func floorCells() []tableCell {
	return []tableCell{
		costCell("CPU µs/event", false, func(c *serverCost) string { return render.FormatNumber(c.EventMicros) }),
		spanCell("p50 ms", func(l render.Latencies) float64 { return l.P50 }),
		spanCell("p99 ms", func(l render.Latencies) float64 { return l.P99 }),
	}
}

// serverCells are the columns of a server.
func serverCells() []tableCell {
	cost := costCell
	all := append(floorCells(),
		cost("CPU µs/open", false, func(c *serverCost) string { return render.FormatNumber(c.OpenMicros) }),
		cost("net µs/event", false, func(c *serverCost) string { return render.FormatNumber(c.NetMicros) }),
		cost("CPU s", false, func(c *serverCost) string { return render.FormatNumber(c.CPUSeconds) }),
		tableCell{"bytes/event", false, func(r *result) string { return render.FormatNumber(r.BytesPerEvent) }},
		cost("µs/write alone", true, func(c *serverCost) string { return render.FormatNumber(c.AloneMicros) }),
		cost("RSS", true, func(c *serverCost) string { return render.FormatBytes(c.RSSBytes) }),
		cost("peak", true, func(c *serverCost) string { return render.FormatBytes(c.PeakBytes) }),
		tableCell{"writes/s", true, func(r *result) string { return render.FormatNumber(r.WritesPerSec) }},
		tableCell{"open s", true, func(r *result) string { return render.FormatNumber(r.OpenSeconds) }},
		tableCell{"client µs/event", true, func(r *result) string { return render.FormatNumber(r.ClientMicros) }})
	return all
}

func costCell(title string, wide bool, value func(*serverCost) string) tableCell {
	return tableCell{title, wide, func(r *result) string {
		if r.Server == nil {
			return "-"
		}
		return value(r.Server)
	}}
}

func spanCell(title string, value func(render.Latencies) float64) tableCell {
	return tableCell{title, false, func(r *result) string { return render.FormatNumber(value(r.Millis)) }}
}

// columnGroup is the columns of one server or of the floor.
type columnGroup struct {
	name  string
	floor bool // then it is the last group
	cells []tableCell
	find  func(workload string) *result
}

func (r *report) groups() []columnGroup {
	var groups []columnGroup
	for _, s := range r.Servers {
		if len(s.Results) > 0 {
			groups = append(groups, columnGroup{s.Name, false, serverCells(), func(name string) *result { return find(s.Results, name) }})
		}
	}
	if len(r.Floor) > 0 {
		groups = append(groups, columnGroup{"floor", true, floorCells(), func(name string) *result {
			if own := find(r.Floor, name); own != nil {
				return own
			}
			return r.floorOf(name)
		}})
	}
	return groups
}

// eventTable has a row for each workload.
func (r *report) eventTable(names []string, wide bool) *render.Table {
	t := &render.Table{Columns: render.ColumnsOf("workload", "watchers", "connections")}
	groups := r.groups()
	for _, g := range groups {
		for _, c := range g.cells {
			if wide || !c.wide {
				t.Columns = append(t.Columns, render.Column{Group: g.name, Title: c.title})
			}
		}
	}
	for _, p := range ratios(groups) {
		t.Columns = append(t.Columns, render.Column{Group: "CPU", Title: groups[p.of].name + "/" + groups[p.to].name})
	}
	for _, p := range openRatios(groups) {
		t.Columns = append(t.Columns, render.Column{Group: "CPU of opening", Title: groups[p.of].name + "/" + groups[p.to].name})
	}
	for _, name := range names {
		t.Add(eventRow(name, groups, wide)...)
	}
	return t
}

func eventRow(name string, groups []columnGroup, wide bool) []string {
	row := []string{name, "-", "-"}
	cpu, openCPU := make([]float64, len(groups)), make([]float64, len(groups))
	for i, g := range groups {
		res := g.find(name)
		for _, c := range g.cells {
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
		row = append(row, render.FormatRatio(cpu[p.of], cpu[p.to]))
	}
	for _, p := range openRatios(groups) {
		row = append(row, render.FormatRatio(openCPU[p.of], openCPU[p.to]))
	}
	return row
}

// ratio compares two column groups, given by their indices.
type ratio struct{ of, to int }

// ratios compare the other servers with the first, and each server with the floor.
func ratios(groups []columnGroup) []ratio {
	var all []ratio
	servers := len(groups)
	if servers > 0 && groups[servers-1].floor {
		servers--
	}
	for i := 1; i < servers; i++ {
		all = append(all, ratio{i, 0})
	}
	for i := range servers {
		if servers < len(groups) {
			all = append(all, ratio{i, servers})
		}
	}
	return all
}

// openRatios are the ratios without the floor, whose streams are not watches.
func openRatios(groups []columnGroup) []ratio {
	return slices.DeleteFunc(ratios(groups), func(r ratio) bool { return groups[r.of].floor || groups[r.to].floor })
}

// workloadPair compares a value of two workloads on the same server.
type workloadPair struct {
	name, of, to string
	value        func(*result) float64
}

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

// comparedTable has a row for each pair of workloads that both ran on some server.
func (r *report) comparedTable() render.TitledTable {
	t := render.TitledTable{Title: "Workloads compared with each other"}
	t.Table.Columns = render.ColumnsOf("what")
	for _, s := range r.Servers {
		t.Table.Columns = append(t.Table.Columns, render.Column{Title: s.Name})
	}
	for _, pair := range workloadPairs() {
		row, some := []string{fmt.Sprintf("%s: %s/%s", pair.name, pair.of, pair.to)}, false
		for _, s := range r.Servers {
			of, to := find(s.Results, pair.of), find(s.Results, pair.to)
			if of == nil || to == nil {
				row = append(row, "-")
				continue
			}
			some = true
			row = append(row, render.FormatRatio(pair.value(of), pair.value(to)))
		}
		if some {
			t.Table.Add(row...)
		}
	}
	return t
}

func (r *report) informerTable() render.TitledTable {
	t := render.TitledTable{Table: render.Table{Columns: render.ColumnsOf("workload", "server", "slow", "objects", "bytes each", "RSS ready", "idle", "peak", "after",
		"server ms/MB", "client ms/MB", "s", "fast s")}}
	for _, s := range append(append([]serverReport{}, r.Servers...), serverReport{Name: "floor", Informers: r.FloorInformers}) {
		for _, m := range s.Informers {
			if m.Error != "" {
				continue
			}
			t.Title = fmt.Sprintf("Informers that begin with a watch-list at once, every fourth slow for its first %s; at least %s of rest before idle",
				render.FormatBytes(slowInformerBytes), r.Plan.Rest)
			t.Table.Add(m.Workload, s.Name, fmt.Sprint(m.Slow), fmt.Sprint(m.Objects), render.FormatBytes(m.BodyBytes),
				formatKnown(m.ReadyBytes), render.FormatBytes(m.IdleBytes), render.FormatBytes(m.PeakBytes), formatKnown(m.AfterBytes), render.FormatNumber(m.CPUMillis), render.FormatNumber(m.ClientMillis),
				render.FormatNumber(m.Seconds), render.FormatNumber(m.MedianSeconds))
		}
	}
	return t
}

// formatKnown formats bytes, or "-" for 0: older reports do not have the value.
func formatKnown(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return render.FormatBytes(bytes)
}

// footer describes the servers, the load, the data and the machine.
func (r *report) footer() []string {
	var lines []string
	for _, s := range r.Servers {
		if s.Version == "" {
			continue // no workload ran on it
		}
		line := s.Name + ": " + s.Version
		if s.StartMillis > 0 {
			line += fmt.Sprintf(", ready in %s s", render.FormatNumber(s.StartMillis/1000))
		}
		lines = append(lines, line)
	}
	lines = append(lines, fmt.Sprintf("%s of writes a workload after %s to warm up; spans begin before the write is sent; "+
		"CPU is the server's, net without that of the same writes without watchers, of opening a watch with its connections and %s later", r.Plan.Duration, r.Plan.Warmup, r.Plan.Settle))
	if r.Plan.Turns > 1 {
		lines = append(lines, fmt.Sprintf("medians of %d turns, in each of which every server was started and measured", r.Plan.Turns))
	}
	for _, d := range r.Data {
		lines = append(lines, d.String())
	}
	if r.ExternalEtcd {
		lines = append(lines, testbed.ExternalEtcdNote)
	}
	if len(r.Floor)+len(r.FloorInformers) > 0 {
		lines = append(lines, "floor: Go's HTTP server writing the same bytes from memory, a handler a stream (floor-tls: one goroutine for all connections); nothing is written to it")
	}
	lines = append(lines, r.Machine.String()+", "+r.Started.UTC().Format(time.RFC3339))
	return append(append(lines, r.interrupted()...), r.Notes...)
}
