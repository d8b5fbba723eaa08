package watch

import (
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/bench/render"
	"github.com/millrace/millrace/internal/bench/testbed"
)

// report is everything that "bench watch" measured; it is what -o json
// prints.
type report struct {
	Started      time.Time            `json:"started"`
	Machine      testbed.Machine      `json:"machine"`
	Plan         plan                 `json:"plan"`
	ExternalEtcd bool                 `json:"externalEtcd,omitempty"`
	Data         []testbed.FillConfig `json:"data,omitempty"` // what was filled in
	Servers      []serverReport       `json:"servers"`
	// Floor is Go's HTTP server writing the event of the first server, and
	// FloorInformers the same writing its watch-list.
	Floor          []result          `json:"floor,omitempty"`
	FloorInformers []informersResult `json:"floorInformers,omitempty"`
	Notes          []string          `json:"notes,omitempty"`
}

// serverReport is one server's part.
type serverReport struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	StartMillis float64           `json:"startMillis,omitempty"` // start to ready
	Results     []result          `json:"results,omitempty"`
	Informers   []informersResult `json:"informers,omitempty"`
}

// result is one event workload against one server.
type result struct {
	Workload    string  `json:"workload"`
	Watchers    int     `json:"watchers"`
	Connections int     `json:"connections"`
	HTTP1       bool    `json:"http1,omitempty"`
	Encoding    string  `json:"acceptEncoding,omitempty"`
	OpenSeconds float64 `json:"openSeconds"` // all connections and watches

	Writes       int     `json:"writes"`
	WritesPerSec float64 `json:"writesPerSecond"` // that were reached
	Events       int     `json:"events"`          // delivered, over all watchers
	// BytesPerEvent counts bodies as they came.
	BytesPerEvent float64 `json:"bytesPerEvent"`
	// Millis are the spans from before the write to the receipt of the event.
	Millis       render.Latencies `json:"millis"`
	Server       *serverCost      `json:"server,omitempty"`
	ClientMicros float64          `json:"clientCPUMicrosPerEvent"`
	Error        string           `json:"error,omitempty"` // if set, nothing was measured
}

// serverCost is what /proc says about the server.
type serverCost struct {
	// OpenMicros is what opening one watch takes, with its share of the connections.
	OpenMicros  float64 `json:"cpuMicrosPerOpen"`
	CPUSeconds  float64 `json:"cpuSeconds"`
	WriteMicros float64 `json:"cpuMicrosPerWrite"`
	EventMicros float64 `json:"cpuMicrosPerEvent"`
	// AloneMicros is a write's CPU without watchers, NetMicros an event's
	// without that.
	AloneMicros float64 `json:"cpuMicrosPerWriteAlone"`
	NetMicros   float64 `json:"netCPUMicrosPerEvent"`
	RSSBytes    int64   `json:"rssBytes"`
	PeakBytes   int64   `json:"peakBytes"`
}

// Write prints the report in one of watchOutputs.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteReport(out, format, r, r.text)
}

// failed lists the measurements that there are not, with the reasons.
func (r *report) failed() []string {
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

func (r *report) noteFailures() { r.Notes = append(r.Notes, r.failed()...) }

// find returns a workload's measurement, nil if there is none.
func find(results []result, workload string) *result {
	for i := range results {
		if results[i].Workload == workload && results[i].Error == "" {
			return &results[i]
		}
	}
	return nil
}

// floorOf is the floor's measurement for a server's workload.
func (r *report) floorOf(workload string) *result {
	for _, s := range eventWorkloads() {
		if s.name == workload && s.floor != "" {
			return find(r.Floor, s.floor)
		}
	}
	return nil
}

// workloads are those of the servers, and the floor's own ones that stand for
// none of them.
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
