package crd

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// text renders the report as "table", "wide" or "markdown".
func (r *report) text(format string) string {
	tables := []render.TitledTable{r.memoryTable(), r.costTable(), r.requestTable(format == "wide")}
	return render.Document(format, nil, tables, r.footer())
}

// columns are the name of a row, the servers, and their ratio if there are two.
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

// addRow adds a row with a value of each server. The value 0 means that it was not
// measured; its cell is "-". A row without values is left out.
func (r *report) addRow(t *render.Table, name string, format func(float64) string, value func(*serverReport) float64) {
	row, some := []string{name}, false
	var values []float64
	for i := range r.Servers {
		v := value(&r.Servers[i])
		cell := "-"
		if v != 0 {
			cell, some = format(v), true
		}
		row, values = append(row, cell), append(values, v)
	}
	if len(values) == 2 {
		row = append(row, render.FormatRatio(values[1], values[0]))
	}
	if some {
		t.Add(row...)
	}
}

// moment is a step of the measurement after which memory is read.
type moment struct {
	name string
	of   func(*serverReport) *State
}

func (s *serverReport) moments() []moment {
	return []moment{
		{"empty", func(s *serverReport) *State { return s.Idle }},
		{"definitions installed", func(s *serverReport) *State { return s.Installed }},
		{"started again", func(s *serverReport) *State { return s.Restarted }},
		{"OpenAPI read", func(s *serverReport) *State { return s.Read }},
		{"custom objects used", func(s *serverReport) *State { return s.Used }},
		{"definitions deleted", func(s *serverReport) *State { return s.Deleted }},
	}
}

func (r *report) memoryTable() render.TitledTable {
	t := render.TitledTable{Title: fmt.Sprintf("Memory and goroutines, each after %s of rest", r.Plan.Rest), Table: render.Table{Columns: r.columns("when")}}
	for _, state := range (*serverReport)(nil).moments() {
		value := func(of func(*State) float64) func(*serverReport) float64 {
			return func(s *serverReport) float64 {
				if at := state.of(s); at != nil {
					return of(at)
				}
				return 0
			}
		}
		r.addRow(&t.Table, state.name+": RSS", render.FormatByteCount, value(func(at *State) float64 { return float64(at.RSSBytes) }))
		r.addRow(&t.Table, state.name+": goroutines", render.FormatCount, value(func(at *State) float64 { return float64(at.Goroutines) }))
	}
	perDefinition := func(s *serverReport) float64 {
		if s.Restarted == nil {
			return 0
		}
		return float64(s.Restarted.RSSBytes-s.Idle.RSSBytes) / float64(r.Data.CRDs)
	}
	r.addRow(&t.Table, "a definition: RSS started again, less empty", render.FormatByteCount, perDefinition)
	return t
}

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
		r.addRow(&t.Table, "start: "+name, render.FormatNumber, func(s *serverReport) float64 {
			if s.Restart == nil {
				return 0
			}
			return value(s.Restart)
		})
	}
	restart("ready, s", func(c *restartCost) float64 { return c.ReadySeconds })
	restart("all listed, s", func(c *restartCost) float64 { return c.ListedSeconds })
	r.openAPIRows(&t.Table)
	for _, of := range []struct {
		name  string
		value func(*deleteCost) float64
	}{
		{"none listed, s", func(c *deleteCost) float64 { return c.Seconds }},
		{"CPU until idle, s", func(c *deleteCost) float64 { return c.IdleCPUSeconds }},
	} {
		r.addRow(&t.Table, "delete: "+of.name, render.FormatNumber, func(s *serverReport) float64 {
			if s.Delete == nil {
				return 0
			}
			return of.value(s.Delete)
		})
	}
	return t
}

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
		of   func(*openAPICost) readCost
	}{
		{"v2", func(c *openAPICost) readCost { return c.V2 }}, {"v3, all", func(c *openAPICost) readCost { return c.V3 }},
	} {
		add(version.name+": first read, s", render.FormatNumber, func(c *openAPICost) float64 { return version.of(c).Seconds })
		add(version.name+": CPU, s", render.FormatNumber, func(c *openAPICost) float64 { return version.of(c).CPUSeconds })
		add(version.name+": size", render.FormatByteCount, func(c *openAPICost) float64 { return float64(version.of(c).Bytes) })
	}
	add("v3: documents", render.FormatCount, func(c *openAPICost) float64 { return float64(c.V3Documents) })
	add("read: RSS right after", render.FormatByteCount, func(c *openAPICost) float64 { return float64(c.RSSBytes) })
}

// requestTable has rows for the requests that the first server with results was sent.
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
		of     func(requestResult) float64
	}{
		{"p50 ms", false, render.FormatNumber, func(w requestResult) float64 { return w.Millis.P50 }},
		{"p90 ms", true, render.FormatNumber, func(w requestResult) float64 { return w.Millis.P90 }},
		{"p99 ms", false, render.FormatNumber, func(w requestResult) float64 { return w.Millis.P99 }},
		{"CPU ms", false, render.FormatNumber, func(w requestResult) float64 { return w.CPUMillis }},
		{"429s", false, render.FormatCount, func(w requestResult) float64 { return float64(w.Refused) }},
	}
	for i, w := range requests {
		t.Title = fmt.Sprintf("Requests for custom objects, one to each of %d kinds, one after another", w.Kinds)
		if w.Rounds > 1 {
			t.Title += fmt.Sprintf("; %d rounds of those that are not the first", w.Rounds)
		}
		for _, v := range values {
			if v.wide && !wide {
				continue
			}
			r.addRow(&t.Table, w.Name+": "+v.name, v.format, func(s *serverReport) float64 {
				if i >= len(s.Requests) {
					return 0
				}
				return v.of(s.Requests[i])
			})
		}
	}
	return t
}

// footer describes the servers, the data and the machine.
func (r *report) footer() []string {
	var lines []string
	for _, s := range r.Servers {
		lines = append(lines, fmt.Sprintf("%s: %s, ready in %s s", s.Name, s.Version, render.FormatNumber(s.StartMillis/1000)))
	}
	lines = append(lines, r.Data.String(), fmt.Sprintf("installed and deleted with %d requests in flight; CPU is the server's", r.Plan.Workers))
	if r.ExternalEtcd {
		lines = append(lines, testbed.ExternalEtcdNote)
	}
	lines = append(lines, r.Machine.String()+", "+r.Started.UTC().Format(time.RFC3339))
	return append(lines, r.Notes...)
}

// plot shows the memory of each server at each moment.
func (r *report) plot() render.Plot {
	p := render.Plot{Title: "Resident memory of a server: " + r.Data.String(), Linear: true, Format: render.FormatByteCount}
	for _, s := range r.Servers {
		p.Series = append(p.Series, render.Series{Name: s.Name, Values: map[string]float64{}})
	}
	for _, state := range (*serverReport)(nil).moments() {
		some := false
		for i := range r.Servers {
			if at := state.of(&r.Servers[i]); at != nil {
				p.Series[i].Values[state.name], some = float64(at.RSSBytes), true
			}
		}
		if some {
			p.Groups = append(p.Groups, state.name)
		}
	}
	return p
}
