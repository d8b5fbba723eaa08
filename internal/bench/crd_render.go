package bench

import (
	"fmt"
	"time"
)

// text renders the report as "table", "wide" or "markdown".
func (r *crdReport) text(format string) string {
	tables := []titled{r.memoryTable(), r.costTable(), r.requestTable(format == "wide")}
	return document(format, nil, tables, r.footer())
}

// columns has one for each server and their ratio.
func (r *crdReport) columns(first string) []column {
	columns := columnsOf(first)
	for _, s := range r.Servers {
		columns = append(columns, column{"", s.Name})
	}
	if len(r.Servers) == 2 {
		columns = append(columns, column{"", r.Servers[1].Name + "/" + r.Servers[0].Name})
	}
	return columns
}

// add adds a row with a value of each server, "-" where it is 0 for want of a
// measurement. A row without any is left out.
func (r *crdReport) add(t *table, name string, format func(float64) string, value func(*crdServer) float64) {
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
		row = append(row, formatRatio(values[1], values[0]))
	}
	if some {
		t.add(row...)
	}
}

// crdState is a moment at which a server's memory is read.
type crdState struct {
	name string
	of   func(*crdServer) *serverState
}

func (s *crdServer) states() []crdState {
	return []crdState{
		{"empty", func(s *crdServer) *serverState { return s.Idle }},
		{"definitions installed", func(s *crdServer) *serverState { return s.Installed }},
		{"started again", func(s *crdServer) *serverState { return s.Restarted }},
		{"OpenAPI read", func(s *crdServer) *serverState { return s.Read }},
		{"custom objects used", func(s *crdServer) *serverState { return s.Used }},
		{"definitions deleted", func(s *crdServer) *serverState { return s.Deleted }},
	}
}

func (r *crdReport) memoryTable() titled {
	t := titled{fmt.Sprintf("Memory and goroutines, each after %s of rest", r.Plan.Rest), table{columns: r.columns("when")}}
	for _, state := range (*crdServer)(nil).states() {
		value := func(of func(*serverState) float64) func(*crdServer) float64 {
			return func(s *crdServer) float64 {
				if at := state.of(s); at != nil {
					return of(at)
				}
				return 0
			}
		}
		r.add(&t.table, state.name+": RSS", bytesOf, value(func(at *serverState) float64 { return float64(at.RSSBytes) }))
		r.add(&t.table, state.name+": goroutines", countOf, value(func(at *serverState) float64 { return float64(at.Goroutines) }))
	}
	perDefinition := func(s *crdServer) float64 {
		if s.Restarted == nil {
			return 0
		}
		return float64(s.Restarted.RSSBytes-s.Idle.RSSBytes) / float64(r.Data.CRDs)
	}
	r.add(&t.table, "a definition: RSS started again, less empty", bytesOf, perDefinition)
	return t
}

func (r *crdReport) costTable() titled {
	t := titled{"Times and costs", table{columns: r.columns("what")}}
	install := func(name string, format func(float64) string, value func(*installCost) float64) {
		r.add(&t.table, "install: "+name, format, func(s *crdServer) float64 {
			if s.Install == nil {
				return 0
			}
			return value(s.Install)
		})
	}
	install("written, s", formatNumber, func(c *installCost) float64 { return c.WrittenSeconds })
	install("all established, s", formatNumber, func(c *installCost) float64 { return c.EstablishedSeconds })
	install("all listed, s", formatNumber, func(c *installCost) float64 { return c.ListedSeconds })
	install("answered, s", formatNumber, func(c *installCost) float64 { return c.AnsweredSeconds })
	install("CPU until answered, s", formatNumber, func(c *installCost) float64 { return c.CPUSeconds })
	install("CPU until idle, s", formatNumber, func(c *installCost) float64 { return c.IdleCPUSeconds })
	install("peak RSS", bytesOf, func(c *installCost) float64 { return float64(c.PeakBytes) })
	r.add(&t.table, "custom objects created, 1/s", formatNumber, func(s *crdServer) float64 { return s.ObjectsPerSecond })
	restart := func(name string, value func(*restartCost) float64) {
		r.add(&t.table, "start: "+name, formatNumber, func(s *crdServer) float64 {
			if s.Restart == nil {
				return 0
			}
			return value(s.Restart)
		})
	}
	restart("ready, s", func(c *restartCost) float64 { return c.ReadySeconds })
	restart("all listed, s", func(c *restartCost) float64 { return c.ListedSeconds })
	r.openAPIRows(&t.table)
	for _, of := range []struct {
		name  string
		value func(*deleteCost) float64
	}{
		{"none listed, s", func(c *deleteCost) float64 { return c.Seconds }},
		{"CPU until idle, s", func(c *deleteCost) float64 { return c.IdleCPUSeconds }},
	} {
		r.add(&t.table, "delete: "+of.name, formatNumber, func(s *crdServer) float64 {
			if s.Delete == nil {
				return 0
			}
			return of.value(s.Delete)
		})
	}
	return t
}

func (r *crdReport) openAPIRows(t *table) {
	add := func(name string, format func(float64) string, value func(*openAPICost) float64) {
		r.add(t, "OpenAPI "+name, format, func(s *crdServer) float64 {
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
		add(version.name+": first read, s", formatNumber, func(c *openAPICost) float64 { return version.of(c).Seconds })
		add(version.name+": CPU, s", formatNumber, func(c *openAPICost) float64 { return version.of(c).CPUSeconds })
		add(version.name+": size", bytesOf, func(c *openAPICost) float64 { return float64(version.of(c).Bytes) })
	}
	add("v3: documents", countOf, func(c *openAPICost) float64 { return float64(c.V3Documents) })
	add("read: RSS right after", bytesOf, func(c *openAPICost) float64 { return float64(c.RSSBytes) })
}

// requestTable has the rows of the first server that was asked.
func (r *crdReport) requestTable(wide bool) titled {
	t := titled{table: table{columns: r.columns("request")}}
	var requests []crdRequestResult
	for _, s := range r.Servers {
		if len(requests) == 0 {
			requests = s.Requests
		}
	}
	values := []struct {
		name   string
		wide   bool
		format func(float64) string
		of     func(crdRequestResult) float64
	}{
		{"p50 ms", false, formatNumber, func(w crdRequestResult) float64 { return w.Millis.P50 }},
		{"p90 ms", true, formatNumber, func(w crdRequestResult) float64 { return w.Millis.P90 }},
		{"p99 ms", false, formatNumber, func(w crdRequestResult) float64 { return w.Millis.P99 }},
		{"CPU ms", false, formatNumber, func(w crdRequestResult) float64 { return w.CPUMillis }},
		{"429s", false, countOf, func(w crdRequestResult) float64 { return float64(w.Refused) }},
	}
	for i, w := range requests {
		t.title = fmt.Sprintf("Requests for custom objects, one to each of %d kinds, one after another", w.Kinds)
		if w.Rounds > 1 {
			t.title += fmt.Sprintf("; %d rounds of those that are not the first", w.Rounds)
		}
		for _, v := range values {
			if v.wide && !wide {
				continue
			}
			r.add(&t.table, w.Name+": "+v.name, v.format, func(s *crdServer) float64 {
				if i >= len(s.Requests) {
					return 0
				}
				return v.of(s.Requests[i])
			})
		}
	}
	return t
}

// footer says what was run on what.
func (r *crdReport) footer() []string {
	var lines []string
	for _, s := range r.Servers {
		lines = append(lines, fmt.Sprintf("%s: %s, ready in %s s", s.Name, s.Version, formatNumber(s.StartMillis/1000)))
	}
	lines = append(lines, r.Data.String(), fmt.Sprintf("installed and deleted with %d requests in flight; CPU is the server's", r.Plan.Workers))
	if r.ExternalEtcd {
		lines = append(lines, externalEtcdNote)
	}
	lines = append(lines, r.Machine.String()+", "+r.Started.UTC().Format(time.RFC3339))
	return append(lines, r.Notes...)
}

// plot shows the memory of each server.
func (r *crdReport) plot() plot {
	p := plot{title: "Resident memory of a server: " + r.Data.String(), linear: true, format: bytesOf}
	for _, s := range r.Servers {
		p.all = append(p.all, series{s.Name, map[string]float64{}})
	}
	for _, state := range (*crdServer)(nil).states() {
		some := false
		for i := range r.Servers {
			if at := state.of(&r.Servers[i]); at != nil {
				p.all[i].values[state.name], some = float64(at.RSSBytes), true
			}
		}
		if some {
			p.names = append(p.names, state.name)
		}
	}
	return p
}
