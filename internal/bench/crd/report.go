package crd

import (
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/bench/render"
	"github.com/millrace/millrace/internal/bench/testbed"
)

// report is everything that "bench crd" measured; it is what -o json prints.
type report struct {
	Started      time.Time       `json:"started"`
	Machine      testbed.Machine `json:"machine"`
	Plan         Plan            `json:"plan"`
	ExternalEtcd bool            `json:"externalEtcd,omitempty"`
	Data         Data            `json:"data"`
	Servers      []serverReport  `json:"servers"`
	Notes        []string        `json:"notes,omitempty"`
}

// serverReport is one server's part, in the order in which it was measured. What a
// server did not come to is missing.
type serverReport struct {
	Name        string  `json:"name"`
	Version     string  `json:"version"`
	StartMillis float64 `json:"startMillis,omitempty"` // start to ready, empty

	Idle      *State       `json:"idle,omitempty"`
	Install   *installCost `json:"install,omitempty"`
	Installed *State       `json:"installed,omitempty"`
	// ObjectsPerSecond is how fast custom objects were created.
	ObjectsPerSecond float64         `json:"objectsPerSecond,omitempty"`
	Restart          *restartCost    `json:"restart,omitempty"`
	Restarted        *State          `json:"restarted,omitempty"`
	OpenAPI          *openAPICost    `json:"openAPI,omitempty"`
	Read             *State          `json:"read,omitempty"` // after OpenAPI
	Requests         []requestResult `json:"requests,omitempty"`
	Used             *State          `json:"used,omitempty"` // after those
	Delete           *deleteCost     `json:"delete,omitempty"`
	Deleted          *State          `json:"deleted,omitempty"`

	Error string `json:"error,omitempty"` // what ended the measurement
}

// installCost has times from before the first write.
type installCost struct {
	WrittenSeconds float64 `json:"writtenSeconds"` // every definition was acknowledged
	// EstablishedSeconds is when the last definition says it was, to the second.
	EstablishedSeconds float64 `json:"establishedSeconds"`
	ListedSeconds      float64 `json:"listedSeconds"`   // discovery has all resources
	AnsweredSeconds    float64 `json:"answeredSeconds"` // and sampled ones can be listed
	CPUSeconds         float64 `json:"cpuSeconds"`      // until answered
	IdleCPUSeconds     float64 `json:"idleCPUSeconds"`  // until the server was idle
	PeakBytes          int64   `json:"peakBytes"`
}

// restartCost has times from the start of the process.
type restartCost struct {
	ReadySeconds  float64 `json:"readySeconds"`
	ListedSeconds float64 `json:"listedSeconds"`
}

// readCost is the first read of something.
type readCost struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
	Bytes      int64   `json:"bytes"`
}

type openAPICost struct {
	V2          readCost `json:"v2"`
	V3          readCost `json:"v3"` // the documents of all group versions
	V3Documents int      `json:"v3Documents"`
	RSSBytes    int64    `json:"rssBytes"` // right after
}

// requestResult is one request to each sampled kind.
type requestResult struct {
	Name      string           `json:"name"`
	Kinds     int              `json:"kinds"`
	Rounds    int              `json:"rounds"` // in each of which one request goes to each kind
	Millis    render.Latencies `json:"millis"`
	CPUMillis float64          `json:"cpuMillis"` // a request
	// Refused is how often a request had to be sent again after a 429.
	Refused int `json:"refused,omitempty"`
}

type deleteCost struct {
	Seconds        float64 `json:"seconds"` // until discovery lists none
	IdleCPUSeconds float64 `json:"idleCPUSeconds"`
}

// Write prints the report in one of outputs.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteWithPlot(out, format, r, r.text, r.plot)
}

func (r *report) failures() int {
	n := 0
	for _, s := range r.Servers {
		if s.Error != "" {
			n++
		}
	}
	return n
}

// note tells what failed, and which memory was read of a busy server.
func (r *report) note() {
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
