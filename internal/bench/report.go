package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// report is everything that was measured; it is what -o json prints.
type report struct {
	Started          time.Time      `json:"started"`
	Machine          machine        `json:"machine"`
	Protocol         string         `json:"protocol"`
	ResourceVersions []string       `json:"resourceVersions,omitempty"`
	Plan             plan           `json:"plan"`
	ExternalEtcd     bool           `json:"externalEtcd,omitempty"`
	Data             *fillConfig    `json:"data,omitempty"` // what was filled in
	Definitions      *crdData       `json:"definitions,omitempty"`
	Subject          subject        `json:"subject,omitzero"`
	Servers          []serverReport `json:"servers"`
	// Floor is Go's HTTP server writing the bodies of the first server.
	Floor []result `json:"floor,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// serverReport is one server's part.
type serverReport struct {
	Name        string         `json:"name"`
	Version     string         `json:"version"`
	StartMillis float64        `json:"startMillis,omitempty"` // start to ready
	IdleBytes   int64          `json:"idleBytes,omitempty"`   // RSS before the first request
	Results     []result       `json:"results"`
	Memory      *memoryResult  `json:"listMemory,omitempty"`
	RSS         *rssResult     `json:"listRSS,omitempty"`
	Stalled     *stalledResult `json:"listStalled,omitempty"`
	// Clients and Appear are those of "bench discovery", and Failed what it
	// could not measure.
	Clients []clientResult `json:"clients,omitempty"`
	Appear  *appearResult  `json:"appear,omitempty"`
	Failed  []string       `json:"failed,omitempty"`
}

// failedSections are the sections without a measurement, with the reasons.
func (s *serverReport) failedSections() []string {
	failed := slices.Clone(s.Failed)
	add := func(section, err string) {
		if err != "" {
			failed = append(failed, section+": "+err)
		}
	}
	if s.Memory != nil {
		add(listMemory, s.Memory.Error)
	}
	if s.RSS != nil {
		add(listRSS, s.RSS.Error)
	}
	if s.Stalled != nil {
		add(listStalled, s.Stalled.Error)
	}
	return failed
}

// result is one workload against one server. Values named "a request" are
// means over the measured requests.
type result struct {
	Workload        string      `json:"workload"`
	URI             string      `json:"uri"`
	Concurrency     int         `json:"concurrency"`
	AcceptEncoding  string      `json:"acceptEncoding,omitempty"`
	ContentEncoding string      `json:"contentEncoding,omitempty"`
	Items           int         `json:"items"`
	Requests        int         `json:"requests"`
	Seconds         float64     `json:"seconds"`
	Bytes           int64       `json:"bytes"` // a request, on the wire
	RequestsPerSec  float64     `json:"requestsPerSecond"`
	ColdMillis      float64     `json:"coldMillis"` // the very first request
	ColdCPUMillis   float64     `json:"coldCPUMillis,omitempty"`
	Millis          latencies   `json:"millis"`
	Server          *serverCost `json:"server,omitempty"`
	ClientCPUMillis float64     `json:"clientCPUMillis"` // a request
	Error           string      `json:"error,omitempty"` // if set, nothing was measured
}

// serverCost is what /proc says about the server.
type serverCost struct {
	CPUMillis float64 `json:"cpuMillis"` // a request
	RSSBytes  int64   `json:"rssBytes"`  // after the workload
	PeakBytes int64   `json:"peakBytes"` // of this workload, if the kernel lets peaks be reset
}

// readReport reads what -o json wrote.
func readReport(file string, r saved) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read report: %w", err)
	}
	if err := json.Unmarshal(content, r); err != nil {
		return fmt.Errorf("read report %s (it must be what -o json wrote): %w", file, err)
	}
	return nil
}

// newResult merges the clients' shares.
func newResult(w workload, workers []worker, elapsed time.Duration) result {
	var samples []time.Duration
	var bytes int64
	for _, own := range workers {
		samples = append(samples, own.samples...)
		bytes += own.bytes
	}
	n := len(samples)
	return result{
		Workload:       w.name,
		URI:            w.uri,
		Concurrency:    w.concurrency,
		AcceptEncoding: w.encoding,
		Requests:       n,
		Seconds:        elapsed.Seconds(),
		Bytes:          bytes / int64(max(n, 1)),
		RequestsPerSec: float64(n) / elapsed.Seconds(),
		Millis:         summarize(samples),
	}
}

func (r *report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// failures counts workloads without a measurement.
func (r *report) failures() int {
	n := 0
	for _, results := range r.resultSets() {
		for _, res := range results {
			if res.Error != "" {
				n++
			}
		}
	}
	for _, s := range r.Servers {
		n += len(s.failedSections())
	}
	return n
}

func (r *report) resultSets() [][]result {
	sets := [][]result{r.Floor}
	for _, s := range r.Servers {
		sets = append(sets, s.Results)
	}
	return sets
}

// find returns a workload's measurement, nil if there is none.
func find(results []result, workload string) *result {
	for i := range results {
		if results[i].Workload == workload && results[i].Error == "" {
			return &results[i]
		}
	}
	return nil
}

// workloads returns the names in the order in which they were run.
func (r *report) workloads() []string {
	var names []string
	seen := map[string]bool{}
	for _, s := range r.Servers {
		for _, res := range s.Results {
			if !seen[res.Workload] {
				seen[res.Workload] = true
				names = append(names, res.Workload)
			}
		}
	}
	return names
}

// check notes what failed and where two servers did not do the same work.
func (r *report) check() {
	for _, s := range r.Servers {
		r.noteFailures(s.Name, s.Results)
		for _, res := range s.Results {
			if res.Error == "" && res.ContentEncoding != res.AcceptEncoding {
				r.note("%s: %s does not send %s", res.Workload, s.Name, res.AcceptEncoding)
			}
		}
		for _, failed := range s.failedSections() {
			r.note("failed on %s: %s", s.Name, failed)
		}
		if s.Stalled != nil && s.Stalled.FirstFailure != "" {
			r.note("%s: %s: first LIST that was not whole: %s", s.Name, listStalled, s.Stalled.FirstFailure)
		}
	}
	r.noteFailures("floor", r.Floor)
	if len(r.Servers) != 2 {
		return
	}
	a, b := r.Servers[0], r.Servers[1]
	for _, name := range r.workloads() {
		x, y := find(a.Results, name), find(b.Results, name)
		if x != nil && y != nil && x.Items != y.Items {
			r.note("%s: %s sent %d items, %s %d", name, a.Name, x.Items, b.Name, y.Items)
		}
	}
}

func (r *report) noteFailures(server string, results []result) {
	for _, res := range results {
		if res.Error != "" {
			r.note("failed on %s: %s: %s", server, res.Workload, res.Error)
		}
	}
}

// write prints the report in one of the formats of --output.
func (r *report) write(out io.Writer, format string) error {
	return writePlotted(out, format, r, r.text, r.plot)
}

// writePlotted prints a report that has a plot too.
func writePlotted(out io.Writer, format string, report any, text func(format string) string, plot func() plot) error {
	if format == "svg" {
		text = func(string) string { return plot().svg() }
	}
	return writeReport(out, format, report, text)
}

// writeReport prints a report as JSON, or in another form as its text.
func writeReport(out io.Writer, format string, report any, text func(format string) string) error {
	if format == "json" {
		return writeIndented(out, report)
	}
	if _, err := io.WriteString(out, text(format)); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func writeIndented(out io.Writer, report any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(report); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
