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

// Report is what became of a log's requests. It has all that a run depends on.
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

// LogSummary is what a log holds.
type LogSummary struct {
	Paths []string `json:"paths"`
	// From is when the first request was received. Seconds is the time to the last event.
	From      time.Time `json:"from"`
	Seconds   float64   `json:"seconds"`
	Requests  int       `json:"requests"`
	Instances int       `json:"instances"`
	// LeftOut counts requests that are not sent, by reason.
	LeftOut map[string]int `json:"leftOut,omitempty"`
	// Notes say what of the log is no event. Lost records are events that could not be read.
	Notes []string `json:"notes,omitempty"`
	Lost  int64    `json:"lost,omitempty"`
}

// ServerOutcome is what became of the requests at one server.
type ServerOutcome struct {
	Address string `json:"address"`
	Version string `json:"version"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
	// CPUSeconds and ResidentBytes are those of the server's process, nil if it does not
	// tell: its /metrics are that of one server, also if the address is of several.
	CPUSeconds    *float64 `json:"cpuSeconds,omitempty"`
	ResidentBytes *float64 `json:"residentBytes,omitempty"`
	// Late is by how much requests were sent too late, in milliseconds.
	Late *render.Latencies `json:"lateMillis,omitempty"`
	// Interrupted says that the replay was ended before the log was.
	Interrupted bool `json:"interrupted,omitempty"`
	// CutShort are watches that the server ended before the replay did, although the log has
	// no end of them.
	CutShort   int             `json:"cutShort,omitempty"`
	FirstError string          `json:"firstError,omitempty"`
	Clients    []ClientOutcome `json:"clients"`
	Shapes     []ShapeOutcome  `json:"shapes"`
}

// ClientOutcome is that of one client: a user and a program.
type ClientOutcome struct {
	serverreport.Client
	Requests int `json:"requests"`
	// Refused had a status of 400 or more, and Unanswered no whole answer.
	Refused    int `json:"refused,omitempty"`
	Unanswered int `json:"unanswered,omitempty"`
	// Bytes are those of the answers as they were sent, before TLS.
	Bytes  int64 `json:"bytes"`
	Events int64 `json:"events,omitempty"`
	// The times of whole GETs, LISTs and writes, and of watches until they begin.
	GetMillis   *render.Latencies `json:"getMillis,omitempty"`
	ListMillis  *render.Latencies `json:"listMillis,omitempty"`
	WatchMillis *render.Latencies `json:"watchMillis,omitempty"`
	WriteMillis *render.Latencies `json:"writeMillis,omitempty"`
}

// ShapeOutcome is that of one kind of requests. InLog is how many the log has in the time
// that was replayed.
type ShapeOutcome struct {
	serverreport.Shape
	InLog int `json:"inLog"`
	Sent  int `json:"sent"`
	// NoPage were not sent, since the list had fewer pages than in the log.
	NoPage     int `json:"noPage,omitempty"`
	Refused    int `json:"refused,omitempty"`
	Unanswered int `json:"unanswered,omitempty"`
}

// countLog sets InLog of all shapes, and adds those of which nothing was sent.
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

func (s *ServerOutcome) byClient() map[serverreport.Client]*ClientOutcome {
	all := map[serverreport.Client]*ClientOutcome{}
	for i := range s.Clients {
		all[s.Clients[i].Client] = &s.Clients[i]
	}
	return all
}

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

// text returns the report as tables with so many rows.
func (r *Report) text(format string, top int) string {
	head := fmt.Sprintf("%s requests of %d instances in %s, from %s\n\n", display.Count(r.Log.Requests), r.Log.Instances, display.Seconds(r.Log.Seconds), r.Log.From.Format("2006-01-02 15:04:05 UTC"))
	tables := []render.TitledTable{
		{Title: "By server", Table: r.serverTable()},
		{Title: "By client, times as median / 99th percentile in ms", Table: r.clientTable(top)},
		{Title: "By request", Table: r.shapeTable(top)},
	}
	return head + render.Document(format, nil, tables, r.notes())
}

func (r *Report) serverTable() render.Table {
	t := render.Table{Columns: render.ColumnsOf("server", "version", "sent", "refused", "no answer", "bytes", "events", "CPU", "memory", "late p99")}
	for i := range r.Servers {
		s := &r.Servers[i]
		sums, cpu, memory, late := s.totals(), "-", "-", "-"
		if s.CPUSeconds != nil {
			cpu = display.Seconds(*s.CPUSeconds)
		}
		if s.ResidentBytes != nil {
			memory = display.Size(*s.ResidentBytes)
		}
		if s.Late != nil {
			late = display.Seconds(s.Late.P99 / 1000)
		}
		t.Add(display.Clean(s.Address), display.Clean(s.Version), display.Count(sums.Requests), display.Count(sums.Refused), display.Count(sums.Unanswered),
			display.Size(sums.Bytes), display.Count(sums.Events), cpu, memory, late)
	}
	return t
}

// clientTable has a line for each client, and the columns of each server.
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
		for _, of := range byClient {
			c := of[first[i].Client]
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

func times(l *render.Latencies) string {
	if l == nil {
		return "-"
	}
	return render.FormatNumber(l.P50) + " / " + render.FormatNumber(l.P99)
}

// shapeTable is of the first server.
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
		t.Add(display.Clean(strings.Join(words, " ")), display.Count(s.InLog), display.Count(s.Sent), display.Count(s.Refused), display.Count(s.Unanswered), display.Count(s.NoPage))
	}
	return t
}

func (r *Report) notes() (notes []string) {
	for _, reason := range slices.Sorted(maps.Keys(r.Log.LeftOut)) {
		notes = append(notes, fmt.Sprintf("%s requests of the log were left out: %s.", display.Count(r.Log.LeftOut[reason]), reason))
	}
	notes = append(notes, r.Log.Notes...)
	for i := range r.Servers {
		s := &r.Servers[i]
		if s.Late != nil && s.Late.P99 > 1000 {
			notes = append(notes, fmt.Sprintf("%s: one request in a hundred was sent %s too late or later, because too many were in flight or this machine was busy. Lower --speed, or raise --max-in-flight.", display.Clean(s.Address), display.Seconds(s.Late.P99/1000)))
		}
		if s.Interrupted {
			notes = append(notes, fmt.Sprintf("%s: interrupted after %s: its figures are of a part of the log.", display.Clean(s.Address), display.Seconds(s.Seconds)))
		}
		if s.CutShort > 0 {
			notes = append(notes, fmt.Sprintf("%s ended %d watches that the log has open to its end.", display.Clean(s.Address), s.CutShort))
		}
		if s.FirstError != "" {
			notes = append(notes, fmt.Sprintf("%s: the first request without an answer: %s.", display.Clean(s.Address), display.Clean(s.FirstError)))
		}
		if s.CPUSeconds == nil {
			notes = append(notes, display.Clean(s.Address)+" does not tell its CPU: the user of the kubeconfig needs the right to get /metrics.")
		}
	}
	return notes
}
