package bench

import (
	"fmt"
	"io"
	"time"
)

// watchReport is everything that "bench watch" measured; it is what -o json
// prints.
type watchReport struct {
	Started      time.Time     `json:"started"`
	Machine      machine       `json:"machine"`
	Plan         watchPlan     `json:"plan"`
	ExternalEtcd bool          `json:"externalEtcd,omitempty"`
	Data         []fillConfig  `json:"data,omitempty"` // what was filled in
	Servers      []watchServer `json:"servers"`
	// Floor is Go's HTTP server writing the event of the first server, and
	// FloorInformers the same writing its watch-list.
	Floor          []watchResult     `json:"floor,omitempty"`
	FloorInformers []informersResult `json:"floorInformers,omitempty"`
	Notes          []string          `json:"notes,omitempty"`
}

// watchServer is one server's part.
type watchServer struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	StartMillis float64           `json:"startMillis,omitempty"` // start to ready
	Results     []watchResult     `json:"results,omitempty"`
	Informers   []informersResult `json:"informers,omitempty"`
}

// watchResult is one event workload against one server.
type watchResult struct {
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
	Millis       latencies  `json:"millis"`
	Server       *watchCost `json:"server,omitempty"`
	ClientMicros float64    `json:"clientCPUMicrosPerEvent"`
	Error        string     `json:"error,omitempty"` // if set, nothing was measured
}

// watchCost is what /proc says about the server.
type watchCost struct {
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

// write prints the report in one of watchOutputs.
func (r *watchReport) write(out io.Writer, format string) error {
	return writeReport(out, format, r, r.text)
}

// failed lists the measurements that there are not, with the reasons.
func (r *watchReport) failed() []string {
	var failed []string
	add := func(server, workload, err string) {
		if err != "" {
			failed = append(failed, fmt.Sprintf("failed on %s: %s: %s", server, workload, err))
		}
	}
	all := append([]watchServer{}, r.Servers...)
	for _, s := range append(all, watchServer{Name: "the floor", Results: r.Floor, Informers: r.FloorInformers}) {
		for _, res := range s.Results {
			add(s.Name, res.Workload, res.Error)
		}
		for _, res := range s.Informers {
			add(s.Name, res.Workload, res.Error)
		}
	}
	return failed
}

func (r *watchReport) noteFailures() { r.Notes = append(r.Notes, r.failed()...) }

// findWatch returns a workload's measurement, nil if there is none.
func findWatch(results []watchResult, workload string) *watchResult {
	for i := range results {
		if results[i].Workload == workload && results[i].Error == "" {
			return &results[i]
		}
	}
	return nil
}

// floorOf is the floor's measurement for a server's workload.
func (r *watchReport) floorOf(workload string) *watchResult {
	for _, s := range watchSpecs() {
		if s.name == workload && s.floor != "" {
			return findWatch(r.Floor, s.floor)
		}
	}
	return nil
}

// workloads are those of the servers, and the floor's own ones that stand for
// none of them.
func (r *watchReport) workloads() []string {
	var names []string
	seen := map[string]bool{}
	add := func(results []watchResult) {
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
	for _, s := range watchSpecs() {
		if seen[s.name] && s.floor != "" {
			seen[s.floor] = true
		}
	}
	add(r.Floor)
	return names
}
