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
	Name        string          `json:"name"`
	Version     string          `json:"version"`
	StartMillis float64         `json:"startMillis,omitempty"` // from the start of the process to readiness
	IdleBytes   int64           `json:"idleBytes,omitempty"`   // RSS before the first request
	Results     []load.Result   `json:"results"`
	Clients     []clientResult  `json:"clients,omitempty"`
	Appear      *additionResult `json:"appear,omitempty"`
	Failed      []string        `json:"failed,omitempty"` // errors of steps that were not measured
}

// clientResult is the cost of the discovery of all resources by a client, per round.
type clientResult struct {
	Client string `json:"client"`
	Legacy bool   `json:"legacy,omitempty"` // the client sent a request for each group version
	requestLimit
	Rounds    int              `json:"rounds"`
	Requests  int              `json:"requests"`  // per round
	Millis    render.Latencies `json:"millis"`    // of rounds, from the first request until all is decoded
	CPUMillis float64          `json:"cpuMillis"` // of the server, per round
}

// additionResult is the time from before the write of a definition until aggregated
// discovery lists its resource.
type additionResult struct {
	Definitions int              `json:"definitions"`
	Millis      render.Latencies `json:"millis"`
	CPUMillis   float64          `json:"cpuMillis"` // of the server, per definition; includes the polls of discovery
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
	workloads := r.comparison().Table(serverColumns, format == render.Wide)
	return render.Document(format, workloads, []render.TitledTable{r.clientTable(), r.additionTable()}, r.footer())
}

// serverColumns returns the columns of a server: for the cold (first) request, and for the later
// requests.
func serverColumns(server string, wide bool) []load.CellColumn {
	columns := []load.CellColumn{
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
		columns = append(columns, load.NumberCell(server, "client CPU ms", func(r *load.Result) float64 { return r.ClientCPUMillis }),
			load.NumberCell(server, "requests", func(r *load.Result) float64 { return float64(r.Requests) }))
	}
	return columns
}

// clientTable returns a table of the clients. Neighbouring rows have the same client.
func (r *report) clientTable() render.TitledTable {
	type result struct {
		server string
		*clientResult
	}
	var results []result
	clients := 0
	for _, s := range r.Servers {
		clients = max(clients, len(s.Clients))
	}
	for i := range clients {
		for _, s := range r.Servers {
			if i < len(s.Clients) {
				results = append(results, result{s.Name, &s.Clients[i]})
			}
		}
	}
	var fields render.Fields[result]
	fields.Add("client", func(c result) string { return c.Client })
	fields.Add("server", func(c result) string { return c.server })
	fields.Add("rounds", func(c result) string { return fmt.Sprint(c.Rounds) })
	fields.Add("requests", func(c result) string { return fmt.Sprint(c.Requests) })
	fields.Add("p50 ms", func(c result) string { return render.FormatNumber(c.Millis.P50) })
	fields.Add("max ms", func(c result) string { return render.FormatNumber(c.Millis.Max) })
	fields.Add("server's CPU ms", func(c result) string { return render.FormatNumber(c.CPUMillis) })
	return render.TitledTable{Title: "Discovery of all resources by a new client, per round", Table: *fields.Table(results)}
}

// additionTable returns a table of the definitions that were added.
func (r *report) additionTable() render.TitledTable {
	type result struct {
		server string
		*additionResult
	}
	var results []result
	for _, s := range r.Servers {
		if s.Appear != nil {
			results = append(results, result{s.Name, s.Appear})
		}
	}
	var fields render.Fields[result]
	fields.Add("server", func(a result) string { return a.server })
	fields.Add("definitions", func(a result) string { return fmt.Sprint(a.Definitions) })
	fields.Add("p50 ms", func(a result) string { return render.FormatNumber(a.Millis.P50) })
	fields.Add("max ms", func(a result) string { return render.FormatNumber(a.Millis.Max) })
	fields.Add("server's CPU ms", func(a result) string { return render.FormatNumber(a.CPUMillis) })
	return render.TitledTable{Title: "Time until a new definition is in aggregated discovery", Table: *fields.Table(results)}
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
