package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/price"
	"github.com/millrace/millrace/internal/tool/render"
)

// Report is the outcome of a log's requests. It also has everything that the run depended on.
type Report struct {
	Millrace  string        `json:"millrace"`
	Arguments []string      `json:"arguments"`
	Started   time.Time     `json:"started"`
	Machine   price.Machine `json:"machine"`
	Options   Options       `json:"options"`
	Log       LogSummary    `json:"log"`
	// Servers have one element, or two with --compare.
	Servers []ServerOutcome `json:"servers"`
}

// LogSummary is the content of a log in numbers.
type LogSummary struct {
	Paths []string `json:"paths"`
	// From is the time of the first request. Seconds is the time from then to the last event.
	From      time.Time `json:"from"`
	Seconds   float64   `json:"seconds"`
	Requests  int       `json:"requests"`
	Instances int       `json:"instances"`
	// LeftOut counts the requests that replay does not send, by reason.
	LeftOut map[string]int `json:"leftOut,omitempty"`
	// Notes are sentences on records that are no events. Lost is the number of records that could
	// not be read, although they are events.
	Notes []string `json:"notes,omitempty"`
	Lost  int64    `json:"lost,omitempty"`
}

// ServerOutcome is the outcome of the requests at one server.
type ServerOutcome struct {
	Address string `json:"address"`
	Version string `json:"version"`
	// Seconds is the duration of the replay.
	Seconds float64 `json:"seconds"`
	// CPUSeconds is the CPU that the server's process used during the replay, and ResidentBytes its
	// memory at the end. They are nil if its /metrics could not be read. At the address
	// of several servers the figures are of one server.
	CPUSeconds    *float64 `json:"cpuSeconds,omitempty"`
	ResidentBytes *float64 `json:"residentBytes,omitempty"`
	// Late has the times by which requests were sent too late, in milliseconds.
	Late *render.Latencies `json:"lateMillis,omitempty"`
	// Interrupted says that the user ended the replay before the end of the log.
	Interrupted bool `json:"interrupted,omitempty"`
	// CutShort is the number of watches that the server ended before the replay did, although
	// they have no end in the log.
	CutShort   int             `json:"cutShort,omitempty"`
	FirstError string          `json:"firstError,omitempty"`
	Clients    []ClientOutcome `json:"clients"`
	Shapes     []ShapeOutcome  `json:"shapes"`
}

// ClientOutcome is the outcome of the requests of one client: a user and a program.
type ClientOutcome struct {
	serverreport.Client
	Requests int `json:"requests"`
	// Refused counts answers with a status of 400 or more, and Unanswered requests without a
	// complete answer.
	Refused    int `json:"refused,omitempty"`
	Unanswered int `json:"unanswered,omitempty"`
	// Bytes is the size of the answers as they were sent, before TLS.
	Bytes  int64 `json:"bytes"`
	Events int64 `json:"events,omitempty"`
	// The times are in milliseconds, until the end of the answer. Times of watches end when the
	// answer starts. Each is nil if there was no such request.
	GetMillis   *render.Latencies `json:"getMillis,omitempty"`
	ListMillis  *render.Latencies `json:"listMillis,omitempty"`
	WatchMillis *render.Latencies `json:"watchMillis,omitempty"`
	WriteMillis *render.Latencies `json:"writeMillis,omitempty"`
}

// ShapeOutcome is the outcome of the requests of one shape.
type ShapeOutcome struct {
	serverreport.Shape
	// InLog is the number of these requests in the part of the log that was replayed.
	InLog int `json:"inLog"`
	Sent  int `json:"sent"`
	// NoPage counts requests that were not sent, because the list had fewer pages than in the
	// log.
	NoPage     int `json:"noPage,omitempty"`
	Refused    int `json:"refused,omitempty"`
	Unanswered int `json:"unanswered,omitempty"`
}

// countLog sets InLog of all shapes, and adds the shapes of which nothing was sent. until is the
// end of the replayed part, in microseconds after the first request of the log.
func (s *ServerOutcome) countLog(p *plan, until int64) {
	inLog := map[serverreport.Shape]int{}
	for i := range p.requests {
		if p.requests[i].at <= until {
			inLog[p.targets[p.requests[i].target].shape]++
		}
	}
	for i := range s.Shapes {
		s.Shapes[i].InLog = inLog[s.Shapes[i].Shape]
		delete(inLog, s.Shapes[i].Shape)
	}
	for shape, n := range inLog {
		s.Shapes = append(s.Shapes, ShapeOutcome{Shape: shape, InLog: n})
	}
	slices.SortFunc(s.Shapes, func(a, b ShapeOutcome) int {
		return cmp.Or(cmp.Compare(b.InLog, a.InLog), cmp.Compare(fmt.Sprint(a.Shape), fmt.Sprint(b.Shape)))
	})
}

// byClient returns the outcomes of clients by client.
func (s *ServerOutcome) byClient() map[serverreport.Client]*ClientOutcome {
	all := map[serverreport.Client]*ClientOutcome{}
	for i := range s.Clients {
		all[s.Clients[i].Client] = &s.Clients[i]
	}
	return all
}

// totals returns the sums over all clients, without times.
func (s *ServerOutcome) totals() (t ClientOutcome) {
	for i := range s.Clients {
		c := &s.Clients[i]
		t.Requests += c.Requests
		t.Refused += c.Refused
		t.Unanswered += c.Unanswered
		t.Bytes += c.Bytes
		t.Events += c.Events
	}
	return t
}

// text returns the report as tables with up to top rows each.
func (r *Report) text(format string, top int) string {
	head := fmt.Sprintf("%s requests of %d instances in %s, from %s\n\n",
		display.Count(r.Log.Requests), r.Log.Instances, display.Seconds(r.Log.Seconds), r.Log.From.Format("2006-01-02 15:04:05 UTC"))
	tables := []render.TitledTable{
		{Title: "By server", Table: r.serverTable()},
		{Title: "By client, times as median / 99th percentile in ms", Table: r.clientTable(top)},
		{Title: "By request", Table: r.shapeTable(top)},
	}
	return head + render.Document(format, nil, tables, r.notes())
}

// serverTable returns a table with a row for each server. Unknown figures are "-".
func (r *Report) serverTable() render.Table {
	t := render.Table{Columns: render.ColumnsOf("server", "version", "sent", "refused", "no answer", "bytes", "events", "CPU",
		"memory", "late p99")}
	for i := range r.Servers {
		s := &r.Servers[i]
		sums := s.totals()
		cpu, memory, late := "-", "-", "-"
		if s.CPUSeconds != nil {
			cpu = display.Seconds(*s.CPUSeconds)
		}
		if s.ResidentBytes != nil {
			memory = display.Size(*s.ResidentBytes)
		}
		if s.Late != nil {
			late = display.Seconds(s.Late.P99 / 1000)
		}
		t.Add(display.Clean(s.Address), display.Clean(s.Version), display.Count(sums.Requests), display.Count(sums.Refused),
			display.Count(sums.Unanswered),
			display.Size(sums.Bytes), display.Count(sums.Events), cpu, memory, late)
	}
	return t
}

// clientTable returns a table with a row for each client of the first server, and a group of
// columns for each server. It has up to top rows.
func (r *Report) clientTable(top int) render.Table {
	columns := []render.Column{{Title: "client"}}
	byClient := make([]map[serverreport.Client]*ClientOutcome, len(r.Servers))
	for i := range r.Servers {
		group := ""
		if len(r.Servers) > 1 {
			group = display.Clean(r.Servers[i].Address)
		}
		for _, title := range []string{"sent", "failed", "bytes", "events", "GET", "LIST", "watch", "write"} {
			columns = append(columns, render.Column{Group: group, Title: title})
		}
		byClient[i] = r.Servers[i].byClient()
	}
	t := render.Table{Columns: columns}
	first := r.Servers[0].Clients
	for i := range first[:min(top, len(first))] {
		cells := []string{display.Clean(first[i].Name())}
		for _, outcomes := range byClient {
			c := outcomes[first[i].Client]
			if c == nil {
				c = &ClientOutcome{}
			}
			cells = append(cells, display.Count(c.Requests), display.Count(c.Refused+c.Unanswered), display.Size(c.Bytes), display.Count(c.Events),
				times(c.GetMillis), times(c.ListMillis), times(c.WatchMillis), times(c.WriteMillis))
		}
		t.Add(cells...)
	}
	return t
}

// times returns the median and the 99th percentile as text.
func times(l *render.Latencies) string {
	if l == nil {
		return "-"
	}
	return render.FormatNumber(l.P50) + " / " + render.FormatNumber(l.P99)
}

// shapeTable returns a table with a row for each shape of requests at the first server. It has up
// to top rows.
func (r *Report) shapeTable(top int) render.Table {
	t := render.Table{Columns: render.ColumnsOf("request", "in the log", "sent", "refused", "no answer", "no page")}
	all := r.Servers[0].Shapes
	for i := range all[:min(top, len(all))] {
		s := &all[i]
		words := []string{s.Verb, s.Resource, s.Scope}
		if s.Selectors != "" {
			words = append(words, s.Selectors)
		}
		if s.Revision != "" {
			words = append(words, "RV "+s.Revision)
		}
		if s.Limit > 0 {
			words = append(words, fmt.Sprintf("limit %d", s.Limit))
		}
		t.Add(display.Clean(strings.Join(words, " ")), display.Count(s.InLog), display.Count(s.Sent),
			display.Count(s.Refused), display.Count(s.Unanswered), display.Count(s.NoPage))
	}
	return t
}

// notes returns sentences on what the tables do not show: requests that were left out, and reasons
// to distrust figures.
func (r *Report) notes() (notes []string) {
	for _, reason := range slices.Sorted(maps.Keys(r.Log.LeftOut)) {
		notes = append(notes, fmt.Sprintf("%s requests of the log were left out: %s.", display.Count(r.Log.LeftOut[reason]), reason))
	}
	notes = append(notes, r.Log.Notes...)
	for i := range r.Servers {
		s := &r.Servers[i]
		address := display.Clean(s.Address)
		if s.Late != nil && s.Late.P99 > 1000 {
			notes = append(notes, fmt.Sprintf("%s: one request in a hundred was sent %s too late or later, "+
				"because too many were in flight or this machine was busy. Lower --speed, or raise "+
				"--max-in-flight.", address, display.Seconds(s.Late.P99/1000)))
		}
		if s.Interrupted {
			notes = append(notes, fmt.Sprintf("%s: interrupted after %s: its figures are of a part of the log.", address,
				display.Seconds(s.Seconds)))
		}
		if s.CutShort > 0 {
			notes = append(notes, fmt.Sprintf("%s ended %d watches that are open to the end of the log.", address, s.CutShort))
		}
		if s.FirstError != "" {
			notes = append(notes, fmt.Sprintf("%s: the first request without an answer: %s.", address, display.Clean(s.FirstError)))
		}
		if s.CPUSeconds == nil {
			notes = append(notes, address+" does not report its CPU: the user of the kubeconfig needs the right to get /metrics.")
		}
	}
	return notes
}
