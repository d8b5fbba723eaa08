package bench

import (
	"fmt"
	"io"
	"time"
)

// discoveryReport is everything that "bench discovery" measured; it is what -o json
// prints.
type discoveryReport struct {
	Started      time.Time         `json:"started"`
	Machine      machine           `json:"machine"`
	Protocol     string            `json:"protocol"`
	Plan         plan              `json:"plan"`
	ExternalEtcd bool              `json:"externalEtcd,omitempty"`
	Definitions  *crdData          `json:"definitions,omitempty"`
	Servers      []discoveryServer `json:"servers"`
	Notes        []string          `json:"notes,omitempty"`
}

// discoveryServer is one server's part.
type discoveryServer struct {
	Name        string         `json:"name"`
	Version     string         `json:"version"`
	StartMillis float64        `json:"startMillis,omitempty"` // start to ready
	IdleBytes   int64          `json:"idleBytes,omitempty"`   // RSS before the first request
	Results     []result       `json:"results"`
	Clients     []clientResult `json:"clients,omitempty"`
	Appear      *appearResult  `json:"appear,omitempty"`
	Failed      []string       `json:"failed,omitempty"` // what could not be measured
}

// clientResult is how client-go's discovery client did.
type clientResult struct {
	Client    string    `json:"client"`
	Rounds    int       `json:"rounds"`
	Requests  int       `json:"requests"` // a round
	Millis    latencies `json:"millis"`   // a round, from the first request until all is decoded
	CPUMillis float64   `json:"cpuMillis"`
}

// appearResult is the time from before a definition is sent until aggregated
// discovery lists its resource.
type appearResult struct {
	Definitions int       `json:"definitions"`
	Millis      latencies `json:"millis"`
	CPUMillis   float64   `json:"cpuMillis"` // a definition, with what asking for it costs
}

func (r *discoveryReport) comparison() comparison {
	var c comparison
	for _, s := range r.Servers {
		c.servers = append(c.servers, serverResults{s.Name, s.Results})
	}
	return c
}

func (r *discoveryReport) failures() int {
	n := r.comparison().failures()
	for _, s := range r.Servers {
		n += len(s.Failed)
	}
	return n
}

// check notes what failed and where two servers did not do the same work.
func (r *discoveryReport) check() {
	c := r.comparison()
	for i, s := range r.Servers {
		r.Notes = append(r.Notes, c.servers[i].notes()...)
		for _, failed := range s.Failed {
			r.Notes = append(r.Notes, fmt.Sprintf("failed on %s: %s", s.Name, failed))
		}
	}
	r.Notes = append(r.Notes, c.differences()...)
}

// write prints the report in one of the formats of --output.
func (r *discoveryReport) write(out io.Writer, format string) error {
	return writePlotted(out, format, r, r.text, r.comparison().plot)
}

// text renders the report as "table", "wide" or "markdown".
func (r *discoveryReport) text(format string) string {
	return document(format, r.comparison().mainTable(discoveryCells, format == "wide"), []titled{r.clientTable()}, r.footer())
}

// discoveryCells are the first request and the later ones.
func discoveryCells(server string, wide bool) []cells {
	all := []cells{
		numberCell(server, "first ms", func(r *result) float64 { return r.ColdMillis }),
		serverCostCell(server, "first CPU ms", func(r *result) string {
			if r.ColdCPUMillis < millis(tick) {
				return "<" + countOf(millis(tick)) // the kernel counts no less
			}
			return formatNumber(r.ColdCPUMillis)
		}),
		numberCell(server, "p50 ms", func(r *result) float64 { return r.Millis.P50 }),
		numberCell(server, "p99 ms", func(r *result) float64 { return r.Millis.P99 }),
		cpuCell(server),
	}
	if wide {
		all = append(all, numberCell(server, "client CPU ms", func(r *result) float64 { return r.ClientCPUMillis }),
			numberCell(server, "requests", func(r *result) float64 { return float64(r.Requests) }))
	}
	return all
}

// clientTable also has the definitions that were added.
func (r *discoveryReport) clientTable() titled {
	t := titled{"Discovery of everything by a new client, and how long until a new definition is in aggregated discovery", table{
		columns: columnsOf("what", "server", "rounds", "requests", "p50 ms", "max ms", "CPU ms")}}
	for i := range discoveryClients() {
		for _, s := range r.Servers {
			if i < len(s.Clients) {
				c := s.Clients[i]
				t.table.add(c.Client, s.Name, fmt.Sprint(c.Rounds), fmt.Sprint(c.Requests), formatNumber(c.Millis.P50),
					formatNumber(c.Millis.Max), formatNumber(c.CPUMillis))
			}
		}
	}
	for _, s := range r.Servers {
		if a := s.Appear; a != nil {
			t.table.add("a new definition", s.Name, fmt.Sprint(a.Definitions), "-", formatNumber(a.Millis.P50),
				formatNumber(a.Millis.Max), formatNumber(a.CPUMillis))
		}
	}
	return t
}

// footer says what was run on what.
func (r *discoveryReport) footer() []string {
	var lines []string
	for _, s := range r.Servers {
		lines = append(lines, serverLine(s.Name, s.Version, s.StartMillis, s.IdleBytes))
	}
	lines = append(lines, r.Plan.line(r.Protocol))
	if d := r.Definitions; d != nil {
		lines = append(lines, d.String())
	}
	if r.ExternalEtcd {
		lines = append(lines, externalEtcdNote)
	}
	lines = append(lines, r.Machine.String()+", "+r.Started.UTC().Format(time.RFC3339))
	return append(lines, r.Notes...)
}
