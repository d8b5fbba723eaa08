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
	// From is the time of the first request. Seconds is the time from From to the last event.
	From      time.Time `json:"from"`
	Seconds   float64   `json:"seconds"`
	Requests  int       `json:"requests"`
	Instances int       `json:"instances"`
	// LeftOut counts the requests that replay does not send, by reason.
	LeftOut map[string]int `json:"leftOut,omitempty"`
	// Notes are sentences on records that are not events. Lost is the number of events that could
	// not be read.
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
	// Late has the times by which requests were begun too late, in milliseconds.
	Late *render.Latencies `json:"lateMillis,omitempty"`
	// Interrupted says that the user ended the replay before the end of the log.
	Interrupted bool `json:"interrupted,omitempty"`
	// CutShort is the number of watches that the server refused, or ended before the replay did,
	// although they have no end in the log.
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
	// InLog is the number of requests of the shape in the part of the log that was replayed.
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
	outcomes := map[serverreport.Client]*ClientOutcome{}
	for i := range s.Clients {
		outcomes[s.Clients[i].Client] = &s.Clients[i]
	}
	return outcomes
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
	type outcome struct {
		*ServerOutcome
		totals ClientOutcome
	}
	outcomes := make([]outcome, len(r.Servers))
	for i := range r.Servers {
		outcomes[i] = outcome{&r.Servers[i], r.Servers[i].totals()}
	}
	var fields render.Fields[outcome]
	fields.Add("server", func(o outcome) string { return display.Clean(o.Address) })
	fields.Add("version", func(o outcome) string { return display.Clean(o.Version) })
	fields.Add("sent", func(o outcome) string { return display.Count(o.totals.Requests) })
	fields.Add("refused", func(o outcome) string { return display.Count(o.totals.Refused) })
	fields.Add("no answer", func(o outcome) string { return display.Count(o.totals.Unanswered) })
	fields.Add("bytes", func(o outcome) string { return display.Size(o.totals.Bytes) })
	fields.Add("events", func(o outcome) string { return display.Count(o.totals.Events) })
	fields.Add("CPU", func(o outcome) string {
		if o.CPUSeconds == nil {
			return "-"
		}
		return display.Seconds(*o.CPUSeconds)
	})
	fields.Add("memory", func(o outcome) string {
		if o.ResidentBytes == nil {
			return "-"
		}
		return display.Size(*o.ResidentBytes)
	})
	fields.Add("late p99", func(o outcome) string {
		if o.Late == nil {
			return "-"
		}
		return display.Seconds(o.Late.P99 / 1000)
	})
	return *fields.Table(outcomes)
}

// clientTable returns a table with a row for each client of the first server, and a group of
// columns for each server. It has up to top rows.
func (r *Report) clientTable(top int) render.Table {
	var fields render.Fields[*ClientOutcome]
	fields.Add("client", func(c *ClientOutcome) string { return display.Clean(c.Name()) })
	for i := range r.Servers {
		group := ""
		if len(r.Servers) > 1 {
			group = display.Clean(r.Servers[i].Address)
		}
		outcomes := r.Servers[i].byClient()
		add := func(title string, cell func(*ClientOutcome) string) {
			fields.AddToGroup(group, title, func(c *ClientOutcome) string {
				return cell(cmp.Or(outcomes[c.Client], &ClientOutcome{}))
			})
		}
		add("sent", func(c *ClientOutcome) string { return display.Count(c.Requests) })
		add("failed", func(c *ClientOutcome) string { return display.Count(c.Refused + c.Unanswered) })
		add("bytes", func(c *ClientOutcome) string { return display.Size(c.Bytes) })
		add("events", func(c *ClientOutcome) string { return display.Count(c.Events) })
		add("GET", func(c *ClientOutcome) string { return times(c.GetMillis) })
		add("LIST", func(c *ClientOutcome) string { return times(c.ListMillis) })
		add("watch", func(c *ClientOutcome) string { return times(c.WatchMillis) })
		add("write", func(c *ClientOutcome) string { return times(c.WriteMillis) })
	}
	clients := r.Servers[0].Clients
	var rows []*ClientOutcome
	for i := range clients[:min(top, len(clients))] {
		rows = append(rows, &clients[i])
	}
	return *fields.Table(rows)
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
	var fields render.Fields[ShapeOutcome]
	fields.Add("request", func(s ShapeOutcome) string { return display.Clean(s.text()) })
	fields.Add("in the log", func(s ShapeOutcome) string { return display.Count(s.InLog) })
	fields.Add("sent", func(s ShapeOutcome) string { return display.Count(s.Sent) })
	fields.Add("refused", func(s ShapeOutcome) string { return display.Count(s.Refused) })
	fields.Add("no answer", func(s ShapeOutcome) string { return display.Count(s.Unanswered) })
	fields.Add("no page", func(s ShapeOutcome) string { return display.Count(s.NoPage) })
	shapes := r.Servers[0].Shapes
	return *fields.Table(shapes[:min(top, len(shapes))])
}

// text returns the shape in words.
func (s *ShapeOutcome) text() string {
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
	return strings.Join(words, " ")
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
			notes = append(notes, fmt.Sprintf("%s: one request in a hundred was sent at least %s too late, "+
				"because too many were in flight or this machine was busy. Lower --speed, or raise "+
				"--max-in-flight.", address, display.Seconds(s.Late.P99/1000)))
		}
		if s.Interrupted {
			notes = append(notes, fmt.Sprintf("%s: interrupted after %s: the figures are of a part of the log.", address,
				display.Seconds(s.Seconds)))
		}
		if s.CutShort > 0 {
			notes = append(notes, fmt.Sprintf("%s ended or refused %d watches that are open to the end of the log.", address, s.CutShort))
		}
		if s.FirstError != "" {
			notes = append(notes, fmt.Sprintf("%s: the first request without a complete answer: %s.", address, display.Clean(s.FirstError)))
		}
		if s.CPUSeconds == nil {
			notes = append(notes, address+" does not report its CPU: the user of the kubeconfig needs the right to get /metrics.")
		}
	}
	return notes
}
