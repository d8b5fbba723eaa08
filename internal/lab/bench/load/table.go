package load

import (
	"fmt"

	"github.com/millrace/millrace/internal/tool/render"
)

// CellColumn is a column of one server. Cell formats a result, which is nil if the workload was
// not measured.
type CellColumn struct {
	Column render.Column
	Cell   func(*Result) string
}

// NumberCell returns a column of numbers. A cell is "-" if the workload was not measured.
func NumberCell(server, title string, value func(*Result) float64) CellColumn {
	return CellColumn{render.Column{Group: server, Title: title}, func(r *Result) string {
		if r == nil {
			return "-"
		}
		return render.FormatNumber(value(r))
	}}
}

// ServerCell returns a column of values of Result.Server. A cell is "-" if the server's
// process id is unknown.
func ServerCell(server, title string, value func(*Result) string) CellColumn {
	return CellColumn{render.Column{Group: server, Title: title}, func(r *Result) string {
		if r == nil || r.Server == nil {
			return "-"
		}
		return value(r)
	}}
}

// CPUCell returns the column of the server's CPU for a request.
func CPUCell(server string) CellColumn {
	return ServerCell(server, "CPU ms", func(r *Result) string { return render.FormatNumber(r.Server.CPUMillis) })
}

// Cells returns the usual columns of a server.
func Cells(server string, wide bool) []CellColumn {
	number := func(title string, value func(*Result) float64) CellColumn { return NumberCell(server, title, value) }
	all := []CellColumn{
		number("req/s", func(r *Result) float64 { return r.RequestsPerSec }),
		number("p50 ms", func(r *Result) float64 { return r.Millis.P50 }),
		number("p90 ms", func(r *Result) float64 { return r.Millis.P90 }),
		number("p99 ms", func(r *Result) float64 { return r.Millis.P99 }),
		CPUCell(server),
		ServerCell(server, "RSS", func(r *Result) string { return render.FormatBytes(r.Server.RSSBytes) }),
		ServerCell(server, "peak", func(r *Result) string { return render.FormatBytes(r.Server.PeakBytes) }),
	}
	if wide {
		all = append(all,
			number("cold ms", func(r *Result) float64 { return r.ColdMillis }),
			number("client CPU ms", func(r *Result) float64 { return r.ClientCPUMillis }),
			CellColumn{render.Column{Group: server, Title: "requests"}, func(r *Result) string {
				if r == nil {
					return "-"
				}
				return fmt.Sprint(r.Requests)
			}})
	}
	return all
}

// Table returns a table with a row for each workload, or nil if there are none. cellsOf returns
// the columns of a server.
func (c Comparison) Table(cellsOf func(server string, wide bool) []CellColumn, wide bool) *render.Table {
	names := c.workloads()
	if len(names) == 0 {
		return nil
	}
	t := &render.Table{Columns: render.ColumnsOf("workload", "clients", "bytes")}
	if wide {
		t.Columns = append(t.Columns, render.Column{Title: "items"})
	}
	for _, s := range c.Servers {
		for _, cell := range cellsOf(s.Name, wide) {
			t.Columns = append(t.Columns, cell.Column)
		}
	}
	t.Columns = append(t.Columns, c.ratioColumns(wide)...)
	for _, name := range names {
		row := c.leadingCells(name, wide)
		for _, s := range c.Servers {
			res := FindResult(s.Results, name)
			for _, cell := range cellsOf(s.Name, wide) {
				row = append(row, cell.Cell(res))
			}
		}
		t.Add(append(row, c.ratioCells(name, wide)...)...)
	}
	return t
}

// leadingCells returns the cells that describe a workload, by the first server that has a result
// for it.
func (c Comparison) leadingCells(name string, wide bool) []string {
	var res *Result
	for _, s := range c.Servers {
		if res = FindResult(s.Results, name); res != nil {
			break
		}
	}
	row := []string{name, "-", "-"}
	if wide {
		row = append(row, "-")
	}
	if res != nil {
		row[1], row[2] = fmt.Sprint(res.Concurrency), render.FormatBytes(res.Bytes)
		if wide {
			row[3] = fmt.Sprint(res.Items)
		}
	}
	return row
}

// ratioColumns returns the columns that compare the CPU of the servers with each other and with
// the floor.
func (c Comparison) ratioColumns(wide bool) []render.Column {
	const group = "CPU"
	var columns []render.Column
	if len(c.Servers) == 2 {
		columns = append(columns, render.Column{Group: group, Title: c.Servers[1].Name + "/" + c.Servers[0].Name})
	}
	if len(c.Floor) > 0 {
		columns = append(columns, render.Column{Group: group, Title: "floor ms"},
			render.Column{Group: group, Title: c.Servers[0].Name + "/floor"})
		if wide && len(c.Servers) == 2 {
			columns = append(columns, render.Column{Group: group, Title: c.Servers[1].Name + "/floor"})
		}
		if wide {
			columns = append(columns, render.Column{Group: "floor", Title: "req/s"}, render.Column{Group: "floor", Title: "p99 ms"})
		}
	}
	return columns
}

// ratioCells returns the cells of ratioColumns for a workload.
func (c Comparison) ratioCells(name string, wide bool) []string {
	cpu := func(results []Result) float64 {
		if res := FindResult(results, name); res != nil && res.Server != nil {
			return res.Server.CPUMillis
		}
		return 0
	}
	number := func(v float64) string {
		if v <= 0 {
			return "-"
		}
		return render.FormatNumber(v)
	}
	var row []string
	if len(c.Servers) == 2 {
		row = append(row, render.FormatRatio(cpu(c.Servers[1].Results), cpu(c.Servers[0].Results)))
	}
	if len(c.Floor) > 0 {
		floor := cpu(c.Floor)
		row = append(row, number(floor), render.FormatRatio(cpu(c.Servers[0].Results), floor))
		if wide && len(c.Servers) == 2 {
			row = append(row, render.FormatRatio(cpu(c.Servers[1].Results), floor))
		}
		if wide {
			res := FindResult(c.Floor, name)
			if res == nil {
				res = &Result{}
			}
			row = append(row, number(res.RequestsPerSec), number(res.Millis.P99))
		}
	}
	return row
}
