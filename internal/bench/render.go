package bench

import (
	"fmt"
	"strings"
	"time"
)

// text renders the report as "table", "wide" or "markdown".
func (r *report) text(format string) string {
	render := renderer(format)
	var parts []string
	if names := r.workloads(); len(names) > 0 {
		parts = append(parts, render(r.mainTable(names, format == "wide")))
	}
	return joined(format, render, parts, r.sectionTables(), r.footer())
}

// joined puts tables that have rows behind parts, and notes behind these.
func joined(format string, render func(*table) string, parts []string, tables []titled, notes []string) string {
	for _, t := range tables {
		if len(t.table.rows) > 0 {
			parts = append(parts, t.title+":\n\n"+render(&t.table))
		}
	}
	if format == "markdown" {
		for i := range notes {
			notes[i] = "- " + notes[i]
		}
	}
	return strings.Join(append(parts, strings.Join(notes, "\n")+"\n"), "\n")
}

// cells makes one server's cells from a measurement, which may be nil.
type cells struct {
	column column
	cell   func(*result) string
}

// numberCell and serverCostCell are "-" where there is no measurement.
func numberCell(server, title string, value func(*result) float64) cells {
	return cells{column{server, title}, func(r *result) string {
		if r == nil {
			return "-"
		}
		return formatNumber(value(r))
	}}
}

func serverCostCell(server, title string, value func(*result) string) cells {
	return cells{column{server, title}, func(r *result) string {
		if r == nil || r.Server == nil {
			return "-"
		}
		return value(r)
	}}
}

func cpuCell(server string) cells {
	return serverCostCell(server, "CPU ms", func(r *result) string { return formatNumber(r.Server.CPUMillis) })
}

func serverCells(server string, wide bool) []cells {
	number := func(title string, value func(*result) float64) cells { return numberCell(server, title, value) }
	all := []cells{
		number("req/s", func(r *result) float64 { return r.RequestsPerSec }),
		number("p50 ms", func(r *result) float64 { return r.Millis.P50 }),
		number("p90 ms", func(r *result) float64 { return r.Millis.P90 }),
		number("p99 ms", func(r *result) float64 { return r.Millis.P99 }),
		cpuCell(server),
		serverCostCell(server, "RSS", func(r *result) string { return formatBytes(r.Server.RSSBytes) }),
		serverCostCell(server, "peak", func(r *result) string { return formatBytes(r.Server.PeakBytes) }),
	}
	if wide {
		all = append(all,
			number("cold ms", func(r *result) float64 { return r.ColdMillis }),
			number("client CPU ms", func(r *result) float64 { return r.ClientCPUMillis }),
			cells{column{server, "requests"}, func(r *result) string {
				if r == nil {
					return "-"
				}
				return fmt.Sprint(r.Requests)
			}})
	}
	return all
}

// mainTable has a row per workload.
func (r *report) mainTable(names []string, wide bool) *table {
	t := &table{columns: []column{{"", "workload"}, {"", "clients"}, {"", "bytes"}}}
	if wide {
		t.columns = append(t.columns, column{"", "items"})
	}
	cellsOf := serverCells
	if r.Definitions != nil {
		cellsOf = discoveryCells
	}
	for _, s := range r.Servers {
		for _, c := range cellsOf(s.Name, wide) {
			t.columns = append(t.columns, c.column)
		}
	}
	t.columns = append(t.columns, r.ratioColumns(wide)...)
	for _, name := range names {
		row := r.leadingCells(name, wide)
		for _, s := range r.Servers {
			res := find(s.Results, name)
			for _, c := range cellsOf(s.Name, wide) {
				row = append(row, c.cell(res))
			}
		}
		t.add(append(row, r.ratioCells(name, wide)...)...)
	}
	return t
}

// leadingCells describe the workload by the first server that did it.
func (r *report) leadingCells(name string, wide bool) []string {
	var res *result
	for _, s := range r.Servers {
		if res = find(s.Results, name); res != nil {
			break
		}
	}
	row := []string{name, "-", "-"}
	if wide {
		row = append(row, "-")
	}
	if res != nil {
		row[1], row[2] = fmt.Sprint(res.Concurrency), formatBytes(res.Bytes)
		if wide {
			row[3] = fmt.Sprint(res.Items)
		}
	}
	return row
}

// ratioColumns compare with the second server and with the floor.
func (r *report) ratioColumns(wide bool) []column {
	const group = "CPU"
	var columns []column
	if len(r.Servers) == 2 {
		columns = append(columns, column{group, r.Servers[1].Name + "/" + r.Servers[0].Name})
	}
	if len(r.Floor) > 0 {
		columns = append(columns, column{group, "floor ms"}, column{group, r.Servers[0].Name + "/floor"})
		if wide && len(r.Servers) == 2 {
			columns = append(columns, column{group, r.Servers[1].Name + "/floor"})
		}
		if wide {
			columns = append(columns, column{"floor", "req/s"}, column{"floor", "p99 ms"})
		}
	}
	return columns
}

func (r *report) ratioCells(name string, wide bool) []string {
	cpu := func(results []result) float64 {
		if res := find(results, name); res != nil && res.Server != nil {
			return res.Server.CPUMillis
		}
		return 0
	}
	number := func(v float64) string {
		if v <= 0 {
			return "-"
		}
		return formatNumber(v)
	}
	var row []string
	if len(r.Servers) == 2 {
		row = append(row, formatRatio(cpu(r.Servers[1].Results), cpu(r.Servers[0].Results)))
	}
	if len(r.Floor) > 0 {
		floor := cpu(r.Floor)
		row = append(row, number(floor), formatRatio(cpu(r.Servers[0].Results), floor))
		if wide && len(r.Servers) == 2 {
			row = append(row, formatRatio(cpu(r.Servers[1].Results), floor))
		}
		if wide {
			res := find(r.Floor, name)
			if res == nil {
				res = &result{}
			}
			row = append(row, number(res.RequestsPerSec), number(res.Millis.P99))
		}
	}
	return row
}

// footer says what was run on what.
func (r *report) footer() []string {
	var lines []string
	for _, s := range r.Servers {
		line := s.Name + ": " + s.Version
		if s.StartMillis > 0 {
			line += fmt.Sprintf(", ready in %s s", formatNumber(s.StartMillis/1000))
		}
		if s.IdleBytes > 0 {
			line += ", RSS before the first request " + formatBytes(s.IdleBytes)
		}
		lines = append(lines, line)
	}
	amount := fmt.Sprintf("%d requests a workload", r.Plan.Requests)
	if r.Plan.Requests == 0 {
		amount = fmt.Sprintf("%s a workload", r.Plan.Duration)
	}
	run := r.Protocol
	if len(r.ResourceVersions) > 0 {
		run += ", resourceVersion " + strings.Join(r.ResourceVersions, " and ")
	}
	lines = append(lines, fmt.Sprintf("%s, %s after %d to warm up; CPU ms is the server's, a request", run, amount, r.Plan.Warmup))
	if d := r.Data; d != nil {
		lines = append(lines, d.String())
	}
	if d := r.Definitions; d != nil {
		lines = append(lines, d.String())
	}
	if r.ExternalEtcd {
		lines = append(lines, "etcd runs in a process of its own: CPU and memory are the API server's alone")
	}
	if len(r.Floor) > 0 {
		lines = append(lines, "floor: Go's HTTP server writing "+r.Servers[0].Name+"'s bytes from memory")
	}
	lines = append(lines, r.Machine.String()+", "+r.Started.UTC().Format(time.RFC3339))
	return append(lines, r.Notes...)
}
