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

// serverReport is the part of the report on one server, in the order of the measurement. Fields
// after a failed step are nil. Saved reports have JSON names that are older than the fields.
type serverReport struct {
	Name        string  `json:"name"`
	Version     string  `json:"version"`
	StartMillis float64 `json:"startMillis,omitempty"` // from the start of the process to readiness, without data

	AfterStart   *State       `json:"idle,omitempty"`
	Install      *installCost `json:"install,omitempty"`
	AfterInstall *State       `json:"installed,omitempty"`
	// ObjectsPerSecond is the rate at which custom objects were created.
	ObjectsPerSecond float64         `json:"objectsPerSecond,omitempty"`
	Restart          *restartCost    `json:"restart,omitempty"`
	AfterRestart     *State          `json:"restarted,omitempty"`
	OpenAPI          *openAPICost    `json:"openAPI,omitempty"`
	AfterOpenAPI     *State          `json:"read,omitempty"`
	Requests         []requestResult `json:"requests,omitempty"`
	AfterRequests    *State          `json:"used,omitempty"`
	Delete           *deleteCost     `json:"delete,omitempty"`
	AfterDelete      *State          `json:"deleted,omitempty"`

	Error string `json:"error,omitempty"` // not empty: the measurement ended early
}

// installCost is the cost of installing the definitions. Times count from before the first write.
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

// restartCost is the time of a start over the definitions. Times count from the start of the
// process.
type restartCost struct {
	ReadySeconds  float64 `json:"readySeconds"`
	ListedSeconds float64 `json:"listedSeconds"` // until discovery lists all resources
}

// readCost is the cost of the first read of one or more documents.
type readCost struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
	Bytes      int64   `json:"bytes"`
}

// openAPICost is the cost of the first reads of OpenAPI.
type openAPICost struct {
	V2          readCost `json:"v2"`
	V3          readCost `json:"v3"` // the documents of all group versions
	V3Documents int      `json:"v3Documents"`
	RSSBytes    int64    `json:"rssBytes"` // right after the reads, without rest
}

// requestResult is the cost of one operation, such as "first list of a kind". It was sent for each
// sampled resource.
type requestResult struct {
	Name      string           `json:"name"`
	Kinds     int              `json:"kinds"`  // sampled resources
	Rounds    int              `json:"rounds"` // each with one request for each kind
	Millis    render.Latencies `json:"millis"`
	CPUMillis float64          `json:"cpuMillis"` // mean of a request
	// Refused is the number of requests that were answered with 429 and sent again.
	Refused int `json:"refused,omitempty"`
}

// deleteCost is the cost of deleting the definitions.
type deleteCost struct {
	Seconds        float64 `json:"seconds"` // until discovery lists none
	IdleCPUSeconds float64 `json:"idleCPUSeconds"`
}

// Write implements testbed.Report.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteWithPlot(out, format, r, r.text, r.plot)
}

// FailureCount implements testbed.Report.
func (r *report) FailureCount() int {
	n := 0
	for _, s := range r.Servers {
		if s.Error != "" {
			n++
		}
	}
	return n
}

// addNotes adds notes on servers that failed, and on memory that was read while the server was
// busy.
func (r *report) addNotes() {
	for _, s := range r.Servers {
		if s.Error != "" {
			r.Notes = append(r.Notes, fmt.Sprintf("failed on %s: %s", s.Name, s.Error))
		}
		for _, point := range measuringPoints() {
			if state := point.state(&s); state != nil && !state.Idle {
				r.Notes = append(r.Notes, fmt.Sprintf("%s: memory %s was read while the server was busy (not idle within %s)", s.Name,
					point.name, testbed.MaxRests*r.Plan.Rest))
			}
		}
	}
}
