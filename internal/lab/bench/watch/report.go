package watch

import (
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// report is everything that "bench watch" has measured. "-o json" prints it.
type report struct {
	Started      time.Time            `json:"started"`
	Machine      testbed.Machine      `json:"machine"`
	Plan         plan                 `json:"plan"`
	ExternalEtcd bool                 `json:"externalEtcd,omitempty"`
	Data         []testbed.FillConfig `json:"data,omitempty"` // filled in by this run
	Servers      []serverReport       `json:"servers"`
	// Floor and FloorInformers have the results of a plain Go HTTP server, which sends an event and
	// the watch-list of Servers[0]. The event is made up if no event workload ran on servers.
	Floor          []result          `json:"floor,omitempty"`
	FloorInformers []informersResult `json:"floorInformers,omitempty"`
	Notes          []string          `json:"notes,omitempty"`
}

// serverReport is the part of the report on one server.
type serverReport struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	StartMillis float64           `json:"startMillis,omitempty"` // from the start of the process to readiness
	Results     []result          `json:"results,omitempty"`
	Informers   []informersResult `json:"informers,omitempty"`
}

// result is the cost of one event workload on one server.
type result struct {
	Workload    string  `json:"workload"`
	Watchers    int     `json:"watchers"`
	Connections int     `json:"connections"`
	HTTP1       bool    `json:"http1,omitempty"`
	Encoding    string  `json:"acceptEncoding,omitempty"`
	OpenSeconds float64 `json:"openSeconds"` // for all connections and watches

	Writes       int     `json:"writes"`
	WritesPerSec float64 `json:"writesPerSecond"` // the rate that was reached
	Events       int     `json:"events"`          // received, by all watchers together
	// BytesPerEvent counts the bytes of bodies before decompression.
	BytesPerEvent float64 `json:"bytesPerEvent"`
	// Millis are the times from right before a write to the receipt of its event.
	Millis          render.Latencies `json:"millis"`
	Server          *serverCost      `json:"server,omitempty"`
	ClientCPUMicros float64          `json:"clientCPUMicrosPerEvent"`
	// Resumed is the number of times that the server ended a watch, which then resumed after its
	// last event.
	Resumed int64  `json:"resumed,omitempty"`
	Error   string `json:"error,omitempty"` // not empty: nothing was measured
}

// serverCost is the server's CPU and memory, by a testbed.Meter.
type serverCost struct {
	// OpenMicros is the CPU for opening one watch, with its share of a connection.
	OpenMicros  float64 `json:"cpuMicrosPerOpen"`
	CPUSeconds  float64 `json:"cpuSeconds"`
	WriteMicros float64 `json:"cpuMicrosPerWrite"`
	EventMicros float64 `json:"cpuMicrosPerEvent"`
	// AloneMicros is the CPU for one write while there are no watchers. NetMicros is the CPU for
	// one event, after the CPU for the writes alone is subtracted.
	AloneMicros float64 `json:"cpuMicrosPerWriteAlone"`
	NetMicros   float64 `json:"netCPUMicrosPerEvent"`
	RSSBytes    int64   `json:"rssBytes"`
	PeakBytes   int64   `json:"peakBytes"`
}

// Write implements testbed.Report. format is one of formats.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteReport(out, format, r, r.text)
}

// interruptionNotes returns a note for each measurement of a server in which watches were resumed, or
// informers restarted.
func (r *report) interruptionNotes() []string {
	var lines []string
	for _, s := range r.Servers {
		for _, res := range s.Results {
			if res.Resumed > 0 {
				lines = append(lines, fmt.Sprintf("%s, %s: the server ended watches %d times, which then resumed after their last event",
					s.Name, res.Workload, res.Resumed))
			}
		}
		for _, res := range s.Informers {
			if res.Restarts > 0 {
				lines = append(lines, fmt.Sprintf("%s, %s: informers restarted %d times", s.Name, res.Workload, res.Restarts))
			}
		}
	}
	return lines
}

// FailureCount implements testbed.Report.
func (r *report) FailureCount() int { return len(r.failureNotes()) }

// failureNotes returns a note for each measurement that failed, with the reason.
func (r *report) failureNotes() []string {
	var failed []string
	add := func(server, workload, err string) {
		if err != "" {
			failed = append(failed, fmt.Sprintf("failed on %s: %s: %s", server, workload, err))
		}
	}
	all := append([]serverReport{}, r.Servers...)
	for _, s := range append(all, serverReport{Name: "the floor", Results: r.Floor, Informers: r.FloorInformers}) {
		for _, res := range s.Results {
			add(s.Name, res.Workload, res.Error)
		}
		for _, res := range s.Informers {
			add(s.Name, res.Workload, res.Error)
		}
	}
	return failed
}

// addFailureNotes adds failureNotes to the notes.
func (r *report) addFailureNotes() { r.Notes = append(r.Notes, r.failureNotes()...) }

// findResult returns the result of a workload, or nil if the workload was not measured.
func findResult(results []result, workload string) *result {
	for i := range results {
		if results[i].Workload == workload && results[i].Error == "" {
			return &results[i]
		}
	}
	return nil
}

// floorOf returns the floor's result for a workload of servers, or nil.
func (r *report) floorOf(workload string) *result {
	for _, s := range eventWorkloads() {
		if s.name == workload && s.floor != "" {
			return findResult(r.Floor, s.floor)
		}
	}
	return nil
}

// workloads returns the names of the table's rows: the workloads of the servers, and the workloads
// of the floor that correspond to none of them.
func (r *report) workloads() []string {
	var names []string
	seen := map[string]bool{}
	add := func(results []result) {
		for _, res := range results {
			if !seen[res.Workload] && res.Error == "" {
				seen[res.Workload] = true
				names = append(names, res.Workload)
			}
		}
	}
	for _, s := range r.Servers {
		add(s.Results)
	}
	for _, s := range eventWorkloads() {
		if seen[s.name] && s.floor != "" {
			seen[s.floor] = true
		}
	}
	add(r.Floor)
	return names
}
