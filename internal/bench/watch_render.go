package bench

import (
	"fmt"
	"slices"
	"time"
)

// text renders the report as "table", "wide" or "markdown".
func (r *watchReport) text(format string) string {
	var events *table
	if names := r.workloads(); len(names) > 0 {
		events = r.eventTable(names, format == "wide")
	}
	return document(format, events, []titled{r.comparedTable(), r.informerTable()}, r.footer())
}

// watchCells makes one server's cells from a measurement, which may be nil.
type watchCells struct {
	title string
	wide  bool
	cell  func(*watchResult) string
}

// floorCells are those that a floor has too.
func floorCells() []watchCells {
	return []watchCells{
		costCell("CPU µs/event", false, func(c *watchCost) string { return formatNumber(c.EventMicros) }),
		spanCell("p50 ms", func(l latencies) float64 { return l.P50 }),
		spanCell("p99 ms", func(l latencies) float64 { return l.P99 }),
	}
}

func watchServerCells() []watchCells {
	cost := costCell
	all := append(floorCells(),
		cost("CPU µs/open", false, func(c *watchCost) string { return formatNumber(c.OpenMicros) }),
		cost("net µs/event", false, func(c *watchCost) string { return formatNumber(c.NetMicros) }),
		cost("CPU s", false, func(c *watchCost) string { return formatNumber(c.CPUSeconds) }),
		watchCells{"bytes/event", false, func(r *watchResult) string { return formatNumber(r.BytesPerEvent) }},
		cost("µs/write alone", true, func(c *watchCost) string { return formatNumber(c.AloneMicros) }),
		cost("RSS", true, func(c *watchCost) string { return formatBytes(c.RSSBytes) }),
		cost("peak", true, func(c *watchCost) string { return formatBytes(c.PeakBytes) }),
		watchCells{"writes/s", true, func(r *watchResult) string { return formatNumber(r.WritesPerSec) }},
		watchCells{"open s", true, func(r *watchResult) string { return formatNumber(r.OpenSeconds) }},
		watchCells{"client µs/event", true, func(r *watchResult) string { return formatNumber(r.ClientMicros) }})
	return all
}

func costCell(title string, wide bool, value func(*watchCost) string) watchCells {
	return watchCells{title, wide, func(r *watchResult) string {
		if r.Server == nil {
			return "-"
		}
		return value(r.Server)
	}}
}

func spanCell(title string, value func(latencies) float64) watchCells {
	return watchCells{title, false, func(r *watchResult) string { return formatNumber(value(r.Millis)) }}
}

// watchGroup is a server's or the floor's columns.
type watchGroup struct {
	name  string
	floor bool // it is the last one
	cells []watchCells
	find  func(workload string) *watchResult
}

func (r *watchReport) groups() []watchGroup {
	var groups []watchGroup
	for _, s := range r.Servers {
		if len(s.Results) > 0 {
			groups = append(groups, watchGroup{s.Name, false, watchServerCells(), func(name string) *watchResult { return findWatch(s.Results, name) }})
		}
	}
	if len(r.Floor) > 0 {
		groups = append(groups, watchGroup{"floor", true, floorCells(), func(name string) *watchResult {
			if own := findWatch(r.Floor, name); own != nil {
				return own
			}
			return r.floorOf(name)
		}})
	}
	return groups
}

// eventTable has a row per workload.
func (r *watchReport) eventTable(names []string, wide bool) *table {
	t := &table{columns: columnsOf("workload", "watchers", "connections")}
	groups := r.groups()
	for _, g := range groups {
		for _, c := range g.cells {
			if wide || !c.wide {
				t.columns = append(t.columns, column{g.name, c.title})
			}
		}
	}
	for _, p := range ratios(groups) {
		t.columns = append(t.columns, column{"CPU", groups[p.of].name + "/" + groups[p.to].name})
	}
	for _, p := range openRatios(groups) {
		t.columns = append(t.columns, column{"CPU of opening", groups[p.of].name + "/" + groups[p.to].name})
	}
	for _, name := range names {
		t.add(eventRow(name, groups, wide)...)
	}
	return t
}

func eventRow(name string, groups []watchGroup, wide bool) []string {
	row := []string{name, "-", "-"}
	cpu, opening := make([]float64, len(groups)), make([]float64, len(groups))
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
			cpu[i], opening[i] = res.Server.EventMicros, res.Server.OpenMicros
		}
	}
	for _, p := range ratios(groups) {
		row = append(row, formatRatio(cpu[p.of], cpu[p.to]))
	}
	for _, p := range openRatios(groups) {
		row = append(row, formatRatio(opening[p.of], opening[p.to]))
	}
	return row
}

type ratio struct{ of, to int } // groups

// ratios compare the second server with the first, and each with the floor.
func ratios(groups []watchGroup) []ratio {
	var all []ratio
	servers := len(groups)
	if servers > 0 && groups[servers-1].floor {
		servers--
	}
	if servers == 2 {
		all = append(all, ratio{1, 0})
	}
	for i := range servers {
		if servers < len(groups) {
			all = append(all, ratio{i, servers})
		}
	}
	return all
}

// openRatios leaves out the floor, whose streams are no watches.
func openRatios(groups []watchGroup) []ratio {
	return slices.DeleteFunc(ratios(groups), func(r ratio) bool { return groups[r.of].floor || groups[r.to].floor })
}

// watchPair is two workloads on one server, one divided by the other.
type watchPair struct {
	name, of, to string
	value        func(*watchResult) float64
}

func watchPairs() []watchPair {
	bytes := func(r *watchResult) float64 { return r.BytesPerEvent }
	p99 := func(r *watchResult) float64 { return r.Millis.P99 }
	cost := func(value func(*watchCost) float64) func(*watchResult) float64 {
		return func(r *watchResult) float64 {
			if r.Server == nil {
				return 0
			}
			return value(r.Server)
		}
	}
	event := cost(func(c *watchCost) float64 { return c.EventMicros })
	net := cost(func(c *watchCost) float64 { return c.NetMicros })
	return []watchPair{
		{"bytes/event", "gzip", "all-h2-20", bytes},
		{"CPU/event", "gzip", "all-h2-20", event},
		{"p99", "stalled", "all-h2-1000", p99},
		{"CPU/event", "names-4000", "names-1000", event},
		{"CPU/event", "names-8000", "names-1000", event},
		{"CPU/event", "nodes-5000", "nodes-1000", event},
		{"net CPU/event", "nodes-5000", "nodes-1000", net},
	}
}

// comparedTable has a row for each pair of workloads that some server did.
func (r *watchReport) comparedTable() titled {
	t := titled{title: "Workloads compared with each other"}
	t.table.columns = columnsOf("what")
	for _, s := range r.Servers {
		t.table.columns = append(t.table.columns, column{"", s.Name})
	}
	for _, pair := range watchPairs() {
		row, some := []string{fmt.Sprintf("%s: %s/%s", pair.name, pair.of, pair.to)}, false
		for _, s := range r.Servers {
			of, to := findWatch(s.Results, pair.of), findWatch(s.Results, pair.to)
			if of == nil || to == nil {
				row = append(row, "-")
				continue
			}
			some = true
			row = append(row, formatRatio(pair.value(of), pair.value(to)))
		}
		if some {
			t.table.add(row...)
		}
	}
	return t
}

func (r *watchReport) informerTable() titled {
	t := titled{table: table{columns: columnsOf("workload", "server", "slow", "objects", "bytes each", "RSS ready", "idle", "peak", "after",
		"server ms/MB", "client ms/MB", "s", "fast s")}}
	for _, s := range append(append([]watchServer{}, r.Servers...), watchServer{Name: "floor", Informers: r.FloorInformers}) {
		for _, m := range s.Informers {
			if m.Error != "" {
				continue
			}
			t.title = fmt.Sprintf("Informers that begin with a watch-list at once, every fourth slow for its first %s; at least %s of rest before idle",
				formatBytes(slowInformerBytes), r.Plan.Rest)
			t.table.add(m.Workload, s.Name, fmt.Sprint(m.Slow), fmt.Sprint(m.Objects), formatBytes(m.BodyBytes),
				formatKnown(m.ReadyBytes), formatBytes(m.IdleBytes), formatBytes(m.PeakBytes), formatKnown(m.AfterBytes), formatNumber(m.CPUMillis), formatNumber(m.ClientMillis),
				formatNumber(m.Seconds), formatNumber(m.MedianSeconds))
		}
	}
	return t
}

// formatKnown leaves out what older reports do not tell.
func formatKnown(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return formatBytes(bytes)
}

// footer says what was run on what.
func (r *watchReport) footer() []string {
	var lines []string
	for _, s := range r.Servers {
		if s.Version == "" {
			continue // it had nothing to do
		}
		line := s.Name + ": " + s.Version
		if s.StartMillis > 0 {
			line += fmt.Sprintf(", ready in %s s", formatNumber(s.StartMillis/1000))
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
		lines = append(lines, externalEtcdNote)
	}
	if len(r.Floor)+len(r.FloorInformers) > 0 {
		lines = append(lines, "floor: Go's HTTP server writing the same bytes from memory, a handler a stream (floor-tls: one goroutine for all connections); nothing is written to it")
	}
	lines = append(lines, r.Machine.String()+", "+r.Started.UTC().Format(time.RFC3339))
	return append(lines, r.Notes...)
}
