package papers

import (
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/internal/bench/render"
	"github.com/millrace/millrace/internal/bench/testbed"
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
	// Results are those of "bench servers", which has a result for each of several setups.
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
	Error string `json:"error"`
}

func (r *requestResult) cpuMillis() float64 {
	if r.Server == nil {
		return 0
	}
	return r.Server.CPUMillis
}

// informerResult is what informers cost that begin at once.
type informerResult struct {
	Informers  int     `json:"informers"`
	Lists      bool    `json:"lists"`
	IdleBytes  int64   `json:"idleBytes"`
	PeakBytes  int64   `json:"peakBytes"`
	CPUSeconds float64 `json:"cpuSeconds"`
	// MedianSeconds is of the informers that are not slow.
	MedianSeconds float64                `json:"medianSeconds"`
	Memory        []testbed.MemorySample `json:"memory"`
	Error         string                 `json:"error"`
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

// setupResult is what one LIST cost in one setup.
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
}

// decode reads what a step has printed. Unknown fields are ignored.
func decode(step string, text []byte) (*printout, error) {
	d := &printout{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("decode report of step %s: %w", step, err)
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

// versions are those of the servers, in the order of tables.
func (d *printout) versions() map[string]string {
	all := map[string]string{}
	for _, s := range d.Servers {
		all[s.Name] = s.Version
	}
	for _, s := range d.Results {
		if s.Path != "" {
			all[s.Path] = s.Version
		}
	}
	return all
}
