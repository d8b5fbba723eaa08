package crd

import (
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// report is everything that "bench crd" has measured. "-o json" prints it.
type report struct {
	Started      time.Time       `json:"started"`
	Machine      testbed.Machine `json:"machine"`
	Plan         Plan            `json:"plan"`
	ExternalEtcd bool            `json:"externalEtcd,omitempty"`
	Data         Data            `json:"data"`
	Servers      []serverReport  `json:"servers"`
	Notes        []string        `json:"notes,omitempty"`
}

// serverReport is the part of the report on one server, in the order of the measurement.
// Fields after a failed step are nil.
type serverReport struct {
	Name        string  `json:"name"`
	Version     string  `json:"version"`
	StartMillis float64 `json:"startMillis,omitempty"` // from start to ready, without data

	Idle      *State       `json:"idle,omitempty"`
	Install   *installCost `json:"install,omitempty"`
	Installed *State       `json:"installed,omitempty"`
	// ObjectsPerSecond is the rate at which custom objects were created.
	ObjectsPerSecond float64         `json:"objectsPerSecond,omitempty"`
	Restart          *restartCost    `json:"restart,omitempty"`
	Restarted        *State          `json:"restarted,omitempty"`
	OpenAPI          *openAPICost    `json:"openAPI,omitempty"`
	Read             *State          `json:"read,omitempty"` // after OpenAPI
	Requests         []requestResult `json:"requests,omitempty"`
	Used             *State          `json:"used,omitempty"` // after the requests
	Delete           *deleteCost     `json:"delete,omitempty"`
	Deleted          *State          `json:"deleted,omitempty"`

	Error string `json:"error,omitempty"` // not empty: the measurement ended early
}

// installCost is what installing the definitions cost. Times count from before the first
// write.
type installCost struct {
	WrittenSeconds float64 `json:"writtenSeconds"` // until every write was acknowledged
	// EstablishedSeconds is the time until the last condition Established, whose own time
	// stamp has a precision of one second.
	EstablishedSeconds float64 `json:"establishedSeconds"`
	ListedSeconds      float64 `json:"listedSeconds"`   // until discovery lists all resources
	AnsweredSeconds    float64 `json:"answeredSeconds"` // until LISTs of the sampled kinds succeed
	CPUSeconds         float64 `json:"cpuSeconds"`      // until answered
	IdleCPUSeconds     float64 `json:"idleCPUSeconds"`  // until the server was idle
	PeakBytes          int64   `json:"peakBytes"`
}

// restartCost is what a start with the definitions cost. Times count from the start of the
// process.
type restartCost struct {
	ReadySeconds  float64 `json:"readySeconds"`
	ListedSeconds float64 `json:"listedSeconds"`
}

// readCost is what the first read of some documents cost.
type readCost struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
	Bytes      int64   `json:"bytes"`
}

// openAPICost is what the first reads of OpenAPI cost.
type openAPICost struct {
	V2          readCost `json:"v2"`
	V3          readCost `json:"v3"` // the documents of all group versions
	V3Documents int      `json:"v3Documents"`
	RSSBytes    int64    `json:"rssBytes"` // right after the reads, without rest
}

// requestResult is what one kind of request cost, which was sent for each sampled kind of
// objects.
type requestResult struct {
	Name      string           `json:"name"`
	Kinds     int              `json:"kinds"`
	Rounds    int              `json:"rounds"` // each with one request for each kind
	Millis    render.Latencies `json:"millis"`
	CPUMillis float64          `json:"cpuMillis"` // a request
	// Refused is how many requests were answered with a 429 and sent again.
	Refused int `json:"refused,omitempty"`
}

// deleteCost is what deleting the definitions cost.
type deleteCost struct {
	Seconds        float64 `json:"seconds"` // until discovery lists none
	IdleCPUSeconds float64 `json:"idleCPUSeconds"`
}

// Write prints the report in one of render.Formats.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteWithPlot(out, format, r, r.text, r.plot)
}

// Failures implements testbed.Report.
func (r *report) Failures() int {
	n := 0
	for _, s := range r.Servers {
		if s.Error != "" {
			n++
		}
	}
	return n
}

// addNotes adds notes on what failed, and on memory that was read while the server was
// busy.
func (r *report) addNotes() {
	for _, s := range r.Servers {
		if s.Error != "" {
			r.Notes = append(r.Notes, fmt.Sprintf("failed on %s: %s", s.Name, s.Error))
		}
		for _, state := range s.moments() {
			if at := state.of(&s); at != nil && !at.Idle {
				r.Notes = append(r.Notes, fmt.Sprintf("%s was not idle within %s: %s", s.Name, testbed.MaxRests*r.Plan.Rest, state.name))
			}
		}
	}
}
