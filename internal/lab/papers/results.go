package papers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
)

// results are what the steps of a paper have printed, by step.
type results struct {
	scale float64
	steps map[string]*printout
}

// of returns what a step has printed. It is empty if the step has not run.
func (r *results) of(step string) *printout {
	if d := r.steps[step]; d != nil {
		return d
	}
	return &printout{}
}

// comparable is a published figure if this run has the original's counts, and else 0, which
// keeps it out of plots.
func (r *results) comparable(published float64) float64 {
	if r.scale != 1 {
		return 0
	}
	return published
}

// printout is the part of the JSON of all benches that papers show.
type printout struct {
	Servers []serverResult `json:"servers"`
	// Results are those of "bench servers" and "bench provision", which have a result for each
	// of several setups.
	Results []setupResult `json:"results"`
}

// serverResult is what was measured at one server. Each bench has some of the fields.
type serverResult struct {
	Name      string           `json:"name"`
	Version   string           `json:"version"`
	IdleBytes int64            `json:"idleBytes"`
	Results   []requestResult  `json:"results"`
	Informers []informerResult `json:"informers"`
	Clients   []clientResult   `json:"clients"`

	Idle      *memoryState `json:"idle"`
	Restarted *memoryState `json:"restarted"`
	Read      *memoryState `json:"read"`
	Install   *struct {
		AnsweredSeconds float64 `json:"answeredSeconds"`
		IdleCPUSeconds  float64 `json:"idleCPUSeconds"`
	} `json:"install"`
	OpenAPI *struct {
		V2 struct {
			Seconds float64 `json:"seconds"`
		} `json:"v2"`
	} `json:"openAPI"`
}

type memoryState struct {
	RSSBytes int64 `json:"rssBytes"`
}

func (s *memoryState) bytes() float64 {
	if s == nil {
		return 0
	}
	return float64(s.RSSBytes)
}

// requestResult is what one request cost.
type requestResult struct {
	Workload      string           `json:"workload"`
	Requests      int              `json:"requests"`
	Bytes         int64            `json:"bytes"`
	ColdMillis    float64          `json:"coldMillis"`
	Millis        render.Latencies `json:"millis"`
	BytesPerEvent float64          `json:"bytesPerEvent"`
	Server        *struct {
		CPUMillis float64 `json:"cpuMillis"`
		// EventMicros is for an event, with its share of the write.
		EventMicros float64 `json:"cpuMicrosPerEvent"`
		PeakBytes   int64   `json:"peakBytes"`
	} `json:"server"`
	// Refused is how many 429s came before the first answer, and Resumed how often the server
	// ended a watch.
	Refused int    `json:"refused"`
	Resumed int    `json:"resumed"`
	Error   string `json:"error"`
}

func (r *requestResult) cpuMillis() float64 {
	if r.Server == nil {
		return 0
	}
	return r.Server.CPUMillis
}

// informerResult is what informers cost that begin at once.
type informerResult struct {
	Workload   string  `json:"workload"`
	Informers  int     `json:"informers"`
	Lists      bool    `json:"lists"`
	IdleBytes  int64   `json:"idleBytes"`
	PeakBytes  int64   `json:"peakBytes"`
	CPUSeconds float64 `json:"cpuSeconds"`
	// MedianSeconds is of the informers that are not slow.
	MedianSeconds float64 `json:"medianSeconds"`
	// Restarts is how often one had to begin again.
	Restarts int                    `json:"restarts"`
	Memory   []testbed.MemorySample `json:"memory"`
	Error    string                 `json:"error"`
}

// clientResult is what discovery of everything cost a client.
type clientResult struct {
	Legacy    bool             `json:"legacy"`
	QPS       float64          `json:"qps"`
	Burst     int              `json:"burst"`
	Requests  int              `json:"requests"`
	Millis    render.Latencies `json:"millis"`
	CPUMillis float64          `json:"cpuMillis"`
}

// setupResult is what one LIST cost in one setup, or what it cost to provision pods on one path.
type setupResult struct {
	Path           string           `json:"path"`
	Version        string           `json:"version"`
	Servers        int              `json:"servers"`
	Workload       string           `json:"workload"`
	Rate           float64          `json:"rate"`
	RequestsPerSec float64          `json:"requestsPerSecond"`
	Bytes          int64            `json:"bytes"`
	Millis         render.Latencies `json:"millis"`
	CPUMillis      float64          `json:"cpuMillis"`
	RSSBytes       int64            `json:"rssBytes"`
	Error          string           `json:"error"`

	// The rest is of "bench provision". Server is the version.
	Server   string               `json:"server"`
	Seconds  float64              `json:"seconds"`
	Steps    map[string]quantiles `json:"steps"`
	Costs    []partCost           `json:"costs"`
	Requests int                  `json:"requests"`
}

// quantiles are those of a step's times, in milliseconds.
type quantiles struct{ P50, P95, P99 float64 }

// partCost is what a process used while pods were provisioned.
type partCost struct {
	Part       string  `json:"part"`
	CPUSeconds float64 `json:"cpuSeconds"`
	PeakBytes  int64   `json:"peakBytes"`
	SentBytes  int64   `json:"sentBytes"`
}

// pathCluster is how "bench provision" names the server that exists.
const pathCluster = "cluster"

// decode reads what a step has printed. Unknown fields are ignored.
func decode(step string, text []byte) (*printout, error) {
	d := &printout{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("decode report of step %s: %w", step, err)
	}
	for i := range d.Results {
		if d.Results[i].Path == pathCluster {
			d.Results[i].Path = testbed.ReadPathExisting
		}
	}
	return d, nil
}

// values has a value of each server.
func (d *printout) values(of func(*serverResult) float64) map[string]float64 {
	values := map[string]float64{}
	for i := range d.Servers {
		values[d.Servers[i].Name] = of(&d.Servers[i])
	}
	return values
}

// requests has a value of a workload of each server where it did not fail.
func (d *printout) requests(workload string, of func(*requestResult) float64) map[string]float64 {
	values := map[string]float64{}
	for i := range d.Servers {
		s := &d.Servers[i]
		for j := range s.Results {
			if r := &s.Results[j]; r.Workload == workload && r.Error == "" {
				values[s.Name] = of(r)
			}
		}
	}
	return values
}

// paths has a value of each path on which pods were provisioned.
func (d *printout) paths(of func(*setupResult) float64) map[string]float64 {
	values := map[string]float64{}
	for i := range d.Results {
		if p := &d.Results[i]; p.Error == "" {
			values[p.Path] = of(p)
		}
	}
	return values
}

// versions are those of the servers, in the order of tables.
func (d *printout) versions() map[string]string {
	all := map[string]string{}
	for _, s := range d.Servers {
		all[s.Name] = s.Version
	}
	for _, s := range d.Results {
		if version := cmp.Or(s.Version, s.Server); version != "" {
			all[s.Path] = version
		}
	}
	return all
}

// refusals say where a server refused requests or ended answers, which clients then repeated.
func (d *printout) refusals() (lines []string) {
	add := func(server, what string, n int, text string) {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%s, %s: "+text, serverName(server), what, display.Plural(n, "time")))
		}
	}
	for i := range d.Servers {
		s := &d.Servers[i]
		for _, r := range s.Results {
			add(s.Name, r.Workload, r.Refused, "the first request was refused %s for now (429). Its time begins with the last try.")
			add(s.Name, r.Workload, r.Resumed, "the server ended a watch %s, which then went on behind its last event.")
		}
		for _, r := range s.Informers {
			add(s.Name, r.Workload, r.Restarts, "informers had to begin again %s.")
		}
	}
	return lines
}

// failures are the measurements that failed, and why.
func (d *printout) failures() (lines []string) {
	add := func(server, what, err string) {
		if err != "" {
			first, _, _ := strings.Cut(err, "\n") // what follows is the end of a process's log
			lines = append(lines, fmt.Sprintf("Failed: %s, %s: %s", serverName(server), what, display.Clean(first)))
		}
	}
	for i := range d.Servers {
		s := &d.Servers[i]
		for j := range s.Results {
			add(s.Name, s.Results[j].Workload, s.Results[j].Error)
		}
		for j := range s.Informers {
			add(s.Name, s.Informers[j].Workload, s.Informers[j].Error)
		}
	}
	for i := range d.Results {
		r := &d.Results[i]
		what := "pods from creation to running"
		if r.Servers > 0 {
			what = display.Plural(r.Servers, "server")
		}
		add(r.Path, what, r.Error)
	}
	return lines
}
