package bench

import "fmt"

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

// mainTable has a row per workload; nil if there was none. cellsOf makes the cells
// of a server.
func (c comparison) mainTable(cellsOf func(server string, wide bool) []cells, wide bool) *table {
	names := c.workloads()
	if len(names) == 0 {
		return nil
	}
	t := &table{columns: []column{{"", "workload"}, {"", "clients"}, {"", "bytes"}}}
	if wide {
		t.columns = append(t.columns, column{"", "items"})
	}
	for _, s := range c.servers {
		for _, cell := range cellsOf(s.name, wide) {
			t.columns = append(t.columns, cell.column)
		}
	}
	t.columns = append(t.columns, c.ratioColumns(wide)...)
	for _, name := range names {
		row := c.leadingCells(name, wide)
		for _, s := range c.servers {
			res := find(s.results, name)
			for _, cell := range cellsOf(s.name, wide) {
				row = append(row, cell.cell(res))
			}
		}
		t.add(append(row, c.ratioCells(name, wide)...)...)
	}
	return t
}

// leadingCells describe the workload by the first server that did it.
func (c comparison) leadingCells(name string, wide bool) []string {
	var res *result
	for _, s := range c.servers {
		if res = find(s.results, name); res != nil {
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
func (c comparison) ratioColumns(wide bool) []column {
	const group = "CPU"
	var columns []column
	if len(c.servers) == 2 {
		columns = append(columns, column{group, c.servers[1].name + "/" + c.servers[0].name})
	}
	if len(c.floor) > 0 {
		columns = append(columns, column{group, "floor ms"}, column{group, c.servers[0].name + "/floor"})
		if wide && len(c.servers) == 2 {
			columns = append(columns, column{group, c.servers[1].name + "/floor"})
		}
		if wide {
			columns = append(columns, column{"floor", "req/s"}, column{"floor", "p99 ms"})
		}
	}
	return columns
}

func (c comparison) ratioCells(name string, wide bool) []string {
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
	if len(c.servers) == 2 {
		row = append(row, formatRatio(cpu(c.servers[1].results), cpu(c.servers[0].results)))
	}
	if len(c.floor) > 0 {
		floor := cpu(c.floor)
		row = append(row, number(floor), formatRatio(cpu(c.servers[0].results), floor))
		if wide && len(c.servers) == 2 {
			row = append(row, formatRatio(cpu(c.servers[1].results), floor))
		}
		if wide {
			res := find(c.floor, name)
			if res == nil {
				res = &result{}
			}
			row = append(row, number(res.RequestsPerSec), number(res.Millis.P99))
		}
	}
	return row
}
