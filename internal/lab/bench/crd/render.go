package crd

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// text returns the report in a format of tables.
func (r *report) text(format string) string {
	tables := []render.TitledTable{r.memoryTable(), r.costTable(), r.requestTable(format == render.Wide)}
	return render.Document(format, nil, tables, r.footer())
}

// columns returns a column for the names of rows, one for each server, and one for the ratio of
// two servers.
func (r *report) columns(first string) []render.Column {
	columns := render.ColumnsOf(first)
	for _, s := range r.Servers {
		columns = append(columns, render.Column{Title: s.Name})
	}
	if len(r.Servers) == 2 {
		columns = append(columns, render.Column{Title: r.Servers[1].Name + "/" + r.Servers[0].Name})
	}
	return columns
}

// addRow adds a row with a value of each server. The value 0 stands for a value that was not
// measured: the cell is "-". addRow leaves out a row without values.
func (r *report) addRow(t *render.Table, name string, format func(float64) string, value func(*serverReport) float64) {
	row := []string{name}
	measured := 0
	var values []float64
	for i := range r.Servers {
		v := value(&r.Servers[i])
		cell := "-"
		if v != 0 {
			cell = format(v)
			measured++
		}
		row = append(row, cell)
		values = append(values, v)
	}
	if len(values) == 2 {
		row = append(row, render.FormatRatio(values[1], values[0]))
	}
	if measured > 0 {
		t.Add(row...)
	}
}

// measuringPoint is a step of the measurement after which the state of the server is read.
type measuringPoint struct {
	name  string
	state func(*serverReport) *State // returns nil if the step was not reached
}

// measuringPoints returns all measuring points, in the order of the measurement.
func measuringPoints() []measuringPoint {
	return []measuringPoint{
		{"after start", func(s *serverReport) *State { return s.AfterStart }},
		{"after install", func(s *serverReport) *State { return s.AfterInstall }},
		{"after restart", func(s *serverReport) *State { return s.AfterRestart }},
		{"after OpenAPI", func(s *serverReport) *State { return s.AfterOpenAPI }},
		{"after requests", func(s *serverReport) *State { return s.AfterRequests }},
		{"after delete", func(s *serverReport) *State { return s.AfterDelete }},
	}
}

// memoryTable returns a table of the states of all servers, and of the memory of one definition.
func (r *report) memoryTable() render.TitledTable {
	t := render.TitledTable{Title: fmt.Sprintf("Memory and goroutines, each after %s of rest", r.Plan.Rest),
		Table: render.Table{Columns: r.columns("when")}}
	for _, point := range measuringPoints() {
		value := func(figure func(*State) float64) func(*serverReport) float64 {
			return func(s *serverReport) float64 {
				if state := point.state(s); state != nil {
					return figure(state)
				}
				return 0
			}
		}
		r.addRow(&t.Table, point.name+": RSS", render.FormatByteCount, value(func(state *State) float64 { return float64(state.RSSBytes) }))
		r.addRow(&t.Table, point.name+": goroutines", render.FormatCount, value(func(state *State) float64 { return float64(state.Goroutines) }))
	}
	perDefinition := func(s *serverReport) float64 {
		if s.AfterRestart == nil {
			return 0
		}
		return float64(s.AfterRestart.RSSBytes-s.AfterStart.RSSBytes) / float64(r.Data.CRDs)
	}
	r.addRow(&t.Table, "a definition: RSS after restart, less after start", render.FormatByteCount, perDefinition)
	return t
}

// costTable returns a table of the costs of installing, restarting, OpenAPI and deleting.
func (r *report) costTable() render.TitledTable {
	t := render.TitledTable{Title: "Times and costs", Table: render.Table{Columns: r.columns("what")}}
	install := func(name string, format func(float64) string, value func(*installCost) float64) {
		r.addRow(&t.Table, "install: "+name, format, func(s *serverReport) float64 {
			if s.Install == nil {
				return 0
			}
			return value(s.Install)
		})
	}
	install("written, s", render.FormatNumber, func(c *installCost) float64 { return c.WrittenSeconds })
	install("all established, s", render.FormatNumber, func(c *installCost) float64 { return c.EstablishedSeconds })
	install("all listed, s", render.FormatNumber, func(c *installCost) float64 { return c.ListedSeconds })
	install("answered, s", render.FormatNumber, func(c *installCost) float64 { return c.AnsweredSeconds })
	install("CPU until answered, s", render.FormatNumber, func(c *installCost) float64 { return c.CPUSeconds })
	install("CPU until idle, s", render.FormatNumber, func(c *installCost) float64 { return c.IdleCPUSeconds })
	install("peak RSS", render.FormatByteCount, func(c *installCost) float64 { return float64(c.PeakBytes) })
	r.addRow(&t.Table, "custom objects created, 1/s", render.FormatNumber, func(s *serverReport) float64 { return s.ObjectsPerSecond })
	restart := func(name string, value func(*restartCost) float64) {
		r.addRow(&t.Table, "restart: "+name, render.FormatNumber, func(s *serverReport) float64 {
			if s.Restart == nil {
				return 0
			}
			return value(s.Restart)
		})
	}
	restart("ready, s", func(c *restartCost) float64 { return c.ReadySeconds })
	restart("all listed, s", func(c *restartCost) float64 { return c.ListedSeconds })
	r.openAPIRows(&t.Table)
	for _, figure := range []struct {
		name  string
		value func(*deleteCost) float64
	}{
		{"none listed, s", func(c *deleteCost) float64 { return c.Seconds }},
		{"CPU until idle, s", func(c *deleteCost) float64 { return c.IdleCPUSeconds }},
	} {
		r.addRow(&t.Table, "delete: "+figure.name, render.FormatNumber, func(s *serverReport) float64 {
			if s.Delete == nil {
				return 0
			}
			return figure.value(s.Delete)
		})
	}
	return t
}

// openAPIRows adds the rows of the costs of OpenAPI.
func (r *report) openAPIRows(t *render.Table) {
	add := func(name string, format func(float64) string, value func(*openAPICost) float64) {
		r.addRow(t, "OpenAPI "+name, format, func(s *serverReport) float64 {
			if s.OpenAPI == nil {
				return 0
			}
			return value(s.OpenAPI)
		})
	}
	for _, version := range []struct {
		name string
		cost func(*openAPICost) readCost
	}{
		{"v2", func(c *openAPICost) readCost { return c.V2 }}, {"v3, all", func(c *openAPICost) readCost { return c.V3 }},
	} {
		add(version.name+": first read, s", render.FormatNumber, func(c *openAPICost) float64 { return version.cost(c).Seconds })
		add(version.name+": CPU, s", render.FormatNumber, func(c *openAPICost) float64 { return version.cost(c).CPUSeconds })
		add(version.name+": size", render.FormatByteCount, func(c *openAPICost) float64 { return float64(version.cost(c).Bytes) })
	}
	add("v3: documents", render.FormatCount, func(c *openAPICost) float64 { return float64(c.V3Documents) })
	add("read: RSS right after", render.FormatByteCount, func(c *openAPICost) float64 { return float64(c.RSSBytes) })
}

// requestTable returns a table of the costs of requests. It has the requests of the first server
// that has results.
func (r *report) requestTable(wide bool) render.TitledTable {
	t := render.TitledTable{Table: render.Table{Columns: r.columns("request")}}
	var requests []requestResult
	for _, s := range r.Servers {
		if len(requests) == 0 {
			requests = s.Requests
		}
	}
	values := []struct {
		name   string
		wide   bool
		format func(float64) string
		figure func(requestResult) float64
	}{
		{"p50 ms", false, render.FormatNumber, func(w requestResult) float64 { return w.Millis.P50 }},
		{"p90 ms", true, render.FormatNumber, func(w requestResult) float64 { return w.Millis.P90 }},
		{"p99 ms", false, render.FormatNumber, func(w requestResult) float64 { return w.Millis.P99 }},
		{"CPU ms", false, render.FormatNumber, func(w requestResult) float64 { return w.CPUMillis }},
		{"429s", false, render.FormatCount, func(w requestResult) float64 { return float64(w.Refused) }},
	}
	for i, w := range requests {
		t.Title = fmt.Sprintf("Requests for custom objects, one for each of %d kinds, one after another", w.Kinds)
		if w.Rounds > 1 {
			t.Title += fmt.Sprintf("; %d rounds of the requests that are not the first of a kind", w.Rounds)
		}
		for _, v := range values {
			if v.wide && !wide {
				continue
			}
			r.addRow(&t.Table, w.Name+": "+v.name, v.format, func(s *serverReport) float64 {
				if i >= len(s.Requests) {
					return 0
				}
				return v.figure(s.Requests[i])
			})
		}
	}
	return t
}

// footer returns lines about the servers, the data and the machine, and the notes.
func (r *report) footer() []string {
	var lines []string
	for _, s := range r.Servers {
		lines = append(lines, fmt.Sprintf("%s: %s, ready in %s s", s.Name, s.Version, render.FormatNumber(s.StartMillis/1000)))
	}
	lines = append(lines, r.Data.String(), fmt.Sprintf("installed and deleted with %d requests in flight; CPU is the server's",
		r.Plan.Workers))
	if r.ExternalEtcd {
		lines = append(lines, testbed.ExternalEtcdNote)
	}
	lines = append(lines, r.Machine.String()+", "+r.Started.UTC().Format(time.RFC3339))
	return append(lines, r.Notes...)
}

// plot returns a plot of the memory of each server at each measuring point.
func (r *report) plot() render.Plot {
	p := render.Plot{Title: "Resident memory of a server: " + r.Data.String(), Linear: true, Format: render.FormatByteCount}
	for _, s := range r.Servers {
		p.Series = append(p.Series, render.Series{Name: s.Name, Values: map[string]float64{}})
	}
	for _, point := range measuringPoints() {
		measured := 0
		for i := range r.Servers {
			if state := point.state(&r.Servers[i]); state != nil {
				p.Series[i].Values[point.name] = float64(state.RSSBytes)
				measured++
			}
		}
		if measured > 0 {
			p.Groups = append(p.Groups, point.name)
		}
	}
	return p
}
