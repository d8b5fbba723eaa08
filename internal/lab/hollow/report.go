package hollow

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
)

// Report has the counts of a run. Its JSON is the output of -o json.
type Report struct {
	Server  string `json:"server"`
	Options Config `json:"options"`
	// Seconds is the length of the run. StartSeconds is the time until all nodes were ready and
	// all their programs had started.
	Seconds      float64 `json:"seconds"`
	StartSeconds float64 `json:"startSeconds,omitempty"`

	Nodes       int64 `json:"nodes"` // ready at the end
	PodsRunning int64 `json:"podsRunning"`
	PodsDone    int64 `json:"podsDone"`
	Connections int64 `json:"connections"` // open at the end

	// CPUSeconds and PeakBytes are the CPU time and the largest RSS of this process.
	CPUSeconds float64  `json:"cpuSeconds"`
	PeakBytes  int64    `json:"peakBytes"`
	Rows       []Row    `json:"rows"`
	Notes      []string `json:"notes,omitempty"`
}

// Row has the counts of the requests of one shape.
type Row struct {
	Agent   string `json:"agent"`
	Verb    string `json:"verb"`
	Request string `json:"request"`

	Requests int64 `json:"requests"`
	Errors   int64 `json:"errors"`
	// Events is the number of watch events, with initial events and bookmarks.
	Events  int64 `json:"events,omitempty"`
	Bytes   int64 `json:"bytes"` // of bodies, before decompression
	Relists int64 `json:"relists,omitempty"`
	Open    int64 `json:"open,omitempty"` // watches at the end

	// Latencies of requests that succeeded, until the end of the answer. The latencies of watches
	// end with the answer's header.
	P50Seconds float64     `json:"p50Seconds"`
	P99Seconds float64     `json:"p99Seconds"`
	MaxSeconds float64     `json:"maxSeconds"`
	ErrorKinds []ErrorKind `json:"errorKinds,omitempty"`
}

// ErrorKind counts errors with the same message.
type ErrorKind struct {
	Message string `json:"what"`
	Count   int64  `json:"count"`
}

// shownErrors bounds the errors that text shows below the table.
const shownErrors = 12

// text returns the report as a table for a terminal, or as Markdown.
func (r *Report) text(format string) string {
	var rows []*Row
	total := Row{Agent: "all"}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Requests == 0 && row.Open == 0 {
			continue
		}
		rows = append(rows, row)
		total.Requests, total.Errors, total.Events = total.Requests+row.Requests, total.Errors+row.Errors, total.Events+row.Events
		total.Bytes, total.Relists, total.Open = total.Bytes+row.Bytes, total.Relists+row.Relists, total.Open+row.Open
	}
	table := rowFields().Table(append(rows, &total))
	var b strings.Builder
	r.writeErrors(&b)
	fmt.Fprintf(&b, "%d nodes ready, %d pods running, %d pods completed, %d connections", r.Nodes, r.PodsRunning, r.PodsDone, r.Connections)
	if r.StartSeconds > 0 {
		fmt.Fprintf(&b, "; all started within %s", display.Seconds(r.StartSeconds))
	}
	fmt.Fprintf(&b, ".\n%s on %s; this program took %s of CPU (%.2f processors) and %s of memory.", display.Seconds(r.Seconds),
		display.Clean(r.Server),
		display.Seconds(r.CPUSeconds), r.CPUSeconds/max(r.Seconds, 1e-3), display.Size(r.PeakBytes))
	return render.Document(format, table, nil, append([]string{b.String()}, r.Notes...))
}

// rowFields returns the columns of the table. Zeros and missing latencies appear as "-".
func rowFields() render.Fields[*Row] {
	var fields render.Fields[*Row]
	count := func(title string, value func(*Row) int64) {
		fields.Add(title, func(r *Row) string {
			if value(r) == 0 {
				return "-"
			}
			return display.Count(value(r))
		})
	}
	latency := func(title string, seconds func(*Row) float64) {
		fields.Add(title, func(r *Row) string {
			if seconds(r) == 0 {
				return "-"
			}
			return display.Seconds(seconds(r))
		})
	}
	fields.Add("agent and request", func(r *Row) string {
		return display.Clean(strings.TrimSpace(r.Agent + " " + r.Verb + " " + r.Request))
	})
	fields.Add("requests", func(r *Row) string { return display.Count(r.Requests) })
	count("errors", func(r *Row) int64 { return r.Errors })
	count("events", func(r *Row) int64 { return r.Events })
	fields.Add("bytes", func(r *Row) string { return display.Size(r.Bytes) })
	count("relists", func(r *Row) int64 { return r.Relists })
	count("open", func(r *Row) int64 { return r.Open })
	latency("p50", func(r *Row) float64 { return r.P50Seconds })
	latency("p99", func(r *Row) float64 { return r.P99Seconds })
	latency("max", func(r *Row) float64 { return r.MaxSeconds })
	return fields
}

// writeErrors writes a line for each kind of error, and at most shownErrors lines.
func (r *Report) writeErrors(b *strings.Builder) {
	shown := 0
	for i := range r.Rows {
		row := &r.Rows[i]
		for _, kind := range row.ErrorKinds {
			if shown++; shown > shownErrors {
				b.WriteString("… -o json has all errors\n")
				return
			}
			fmt.Fprintf(b, "%8s  %s %s %s: %s\n", display.Count(kind.Count), row.Agent, row.Verb, display.Clean(row.Request), kind.Message)
		}
	}
}

// ownUsage returns the CPU seconds and the peak memory of this process.
func ownUsage() (seconds float64, bytes int64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0
	}
	seconds = time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	return seconds, u.Maxrss << 10
}
