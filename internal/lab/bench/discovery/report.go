package discovery

import (
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/crd"
	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// report is everything that "bench discovery" has measured. "-o json" prints it.
type report struct {
	Started      time.Time       `json:"started"`
	Machine      testbed.Machine `json:"machine"`
	Protocol     string          `json:"protocol"`
	Plan         load.Plan       `json:"plan"`
	ExternalEtcd bool            `json:"externalEtcd,omitempty"`
	Definitions  *crd.Data       `json:"definitions,omitempty"`
	Servers      []serverReport  `json:"servers"`
	Notes        []string        `json:"notes,omitempty"`
}

// serverReport is the part of the report on one server.
type serverReport struct {
	Name        string         `json:"name"`
	Version     string         `json:"version"`
	StartMillis float64        `json:"startMillis,omitempty"` // from the start of the process to readiness
	IdleBytes   int64          `json:"idleBytes,omitempty"`   // RSS before the first request
	Results     []load.Result  `json:"results"`
	Clients     []clientResult `json:"clients,omitempty"`
	Appear      *appearResult  `json:"appear,omitempty"`
	Failed      []string       `json:"failed,omitempty"` // errors of steps that were not measured
}

// clientResult is the cost of the discovery of everything by a client.
type clientResult struct {
	Client string `json:"client"`
	Legacy bool   `json:"legacy,omitempty"` // the client sent a request for each group version
	limit
	Rounds    int              `json:"rounds"`
	Requests  int              `json:"requests"`  // a round
	Millis    render.Latencies `json:"millis"`    // a round, from the first request until everything is decoded
	CPUMillis float64          `json:"cpuMillis"` // a round
}

// appearResult is the time from before the write of a definition until aggregated
// discovery lists its resource.
type appearResult struct {
	Definitions int              `json:"definitions"`
	Millis      render.Latencies `json:"millis"`
	CPUMillis   float64          `json:"cpuMillis"` // a definition, with the polls of discovery
}

// comparison returns a view of the results of the workloads.
func (r *report) comparison() load.Comparison {
	var c load.Comparison
	for _, s := range r.Servers {
		c.Servers = append(c.Servers, load.ServerResults{Name: s.Name, Results: s.Results})
	}
	return c
}

// FailureCount implements testbed.Report.
func (r *report) FailureCount() int {
	n := r.comparison().FailureCount()
	for _, s := range r.Servers {
		n += len(s.Failed)
	}
	return n
}

// addNotes adds notes on failed measurements, and on workloads for which two servers did
// different work.
func (r *report) addNotes() {
	c := r.comparison()
	for i, s := range r.Servers {
		r.Notes = append(r.Notes, c.Servers[i].Notes()...)
		for _, failed := range s.Failed {
			r.Notes = append(r.Notes, fmt.Sprintf("failed on %s: %s", s.Name, failed))
		}
	}
	r.Notes = append(r.Notes, c.Differences()...)
}

// Write implements testbed.Report.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteWithPlot(out, format, r, r.text, r.comparison().Plot)
}

// text returns the report in a format of tables.
func (r *report) text(format string) string {
	return render.Document(format, r.comparison().Table(serverColumns, format == render.Wide), []render.TitledTable{r.clientTable()}, r.footer())
}

// serverColumns returns the columns of a server: for the cold (first) request, and for the later
// requests.
func serverColumns(server string, wide bool) []load.CellColumn {
	all := []load.CellColumn{
		load.NumberCell(server, "cold ms", func(r *load.Result) float64 { return r.ColdMillis }),
		load.ServerCell(server, "cold CPU ms", func(r *load.Result) string {
			if r.ColdCPUMillis < render.Millis(testbed.ClockTick) {
				return "<" + render.FormatCount(render.Millis(testbed.ClockTick)) // the kernel counts in this unit
			}
			return render.FormatNumber(r.ColdCPUMillis)
		}),
		load.NumberCell(server, "p50 ms", func(r *load.Result) float64 { return r.Millis.P50 }),
		load.NumberCell(server, "p99 ms", func(r *load.Result) float64 { return r.Millis.P99 }),
		load.CPUCell(server),
	}
	if wide {
		all = append(all, load.NumberCell(server, "client CPU ms", func(r *load.Result) float64 { return r.ClientCPUMillis }),
			load.NumberCell(server, "requests", func(r *load.Result) float64 { return float64(r.Requests) }))
	}
	return all
}

// clientTable returns a table of the clients, and of the definitions that were added.
func (r *report) clientTable() render.TitledTable {
	t := render.TitledTable{Title: "Discovery of everything by a new client, and how long until a new definition is in aggregated discovery", Table: render.Table{
		Columns: render.ColumnsOf("what", "server", "rounds", "requests", "p50 ms", "max ms", "CPU ms")}}
	most := 0
	for _, s := range r.Servers {
		most = max(most, len(s.Clients))
	}
	for i := range most {
		for _, s := range r.Servers {
			if i < len(s.Clients) {
				c := s.Clients[i]
				t.Table.Add(c.Client, s.Name, fmt.Sprint(c.Rounds), fmt.Sprint(c.Requests), render.FormatNumber(c.Millis.P50),
					render.FormatNumber(c.Millis.Max), render.FormatNumber(c.CPUMillis))
			}
		}
	}
	for _, s := range r.Servers {
		if a := s.Appear; a != nil {
			t.Table.Add("a new definition", s.Name, fmt.Sprint(a.Definitions), "-", render.FormatNumber(a.Millis.P50),
				render.FormatNumber(a.Millis.Max), render.FormatNumber(a.CPUMillis))
		}
	}
	return t
}

// footer returns lines about the servers, the load, the data and the machine, and the notes.
func (r *report) footer() []string {
	var lines []string
	for _, s := range r.Servers {
		lines = append(lines, load.ServerLine(s.Name, s.Version, s.StartMillis, s.IdleBytes))
	}
	lines = append(lines, r.Plan.FooterLine(r.Protocol))
	if d := r.Definitions; d != nil {
		lines = append(lines, d.String())
	}
	if r.ExternalEtcd {
		lines = append(lines, testbed.ExternalEtcdNote)
	}
	lines = append(lines, r.Machine.String()+", "+r.Started.UTC().Format(time.RFC3339))
	return append(lines, r.Notes...)
}
