package list

import (
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// report is everything that "bench list" has measured. "-o json" prints it.
type report struct {
	Started          time.Time           `json:"started"`
	Machine          testbed.Machine     `json:"machine"`
	Protocol         string              `json:"protocol"`
	ResourceVersions []string            `json:"resourceVersions,omitempty"`
	Plan             load.Plan           `json:"plan"`
	Cold             bool                `json:"cold,omitempty"` // --cold: each workload ran on a server that was started for it
	ColdReaders      int                 `json:"coldReaders,omitempty"`
	ColdAfter        time.Duration       `json:"coldAfterNanos,omitempty"`
	ExternalEtcd     bool                `json:"externalEtcd,omitempty"`
	Data             *testbed.FillConfig `json:"data,omitempty"` // filled in by this run
	Samples          sampleObjects       `json:"subject,omitzero"`
	Servers          []serverReport      `json:"servers"`
	// Floor has the results of a plain Go HTTP server, which sends the bodies that were captured
	// from Servers[0].
	Floor []load.Result `json:"floor,omitempty"`
	Notes []string      `json:"notes,omitempty"`
}

// serverReport is the part of the report on one server.
type serverReport struct {
	Name        string             `json:"name"`
	Version     string             `json:"version"`
	StartMillis float64            `json:"startMillis,omitempty"` // from the start of the process to readiness
	Starts      []startReport      `json:"starts,omitempty"`      // one for each process that --cold started
	IdleBytes   int64              `json:"idleBytes,omitempty"`   // RSS before the first request
	Results     []load.Result      `json:"results"`
	Memory      *memoryResult      `json:"listMemory,omitempty"`
	RSS         *rssResult         `json:"listRSS,omitempty"`
	SlowReaders *slowReadersResult `json:"listStalled,omitempty"`
	// Readers has a result for each workload of --cold-readers.
	Readers []readersResult `json:"readers,omitempty"`
}

// failedMeasurements returns the sections and the workloads of --cold-readers that could not be
// measured, each with the reason.
func (s *serverReport) failedMeasurements() []string {
	var failed []string
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
	if s.SlowReaders != nil {
		add(listSlowReaders, s.SlowReaders.Error)
	}
	for _, reader := range s.Readers {
		add(reader.Workload, reader.Error)
	}
	return failed
}

// comparison returns a view of the results of the workloads.
func (r *report) comparison() load.Comparison {
	c := load.Comparison{Floor: r.Floor}
	for _, s := range r.Servers {
		c.Servers = append(c.Servers, load.ServerResults{Name: s.Name, Results: s.Results})
	}
	return c
}

// FailureCount implements testbed.Report.
func (r *report) FailureCount() int {
	n := r.comparison().FailureCount()
	for _, s := range r.Servers {
		n += len(s.failedMeasurements())
	}
	return n
}

// addNotes adds notes on failed measurements, on incomplete LISTs, and on workloads for which
// two servers did different work.
func (r *report) addNotes() {
	c := r.comparison()
	for i, s := range r.Servers {
		r.Notes = append(r.Notes, c.Servers[i].Notes()...)
		for _, failed := range s.failedMeasurements() {
			r.Notes = append(r.Notes, fmt.Sprintf("failed on %s: %s", s.Name, failed))
		}
		if s.SlowReaders != nil && s.SlowReaders.FirstFailure != "" {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %s: first incomplete LIST: %s", s.Name, listSlowReaders, s.SlowReaders.FirstFailure))
		}
		for _, reader := range s.Readers {
			if reader.FirstFailure != "" {
				r.Notes = append(r.Notes, fmt.Sprintf("%s: %s: first incomplete LIST: %s", s.Name, reader.Workload, reader.FirstFailure))
			}
		}
	}
	r.Notes = append(r.Notes, load.ServerResults{Name: "floor", Results: r.Floor}.FailureNotes()...)
	r.Notes = append(r.Notes, c.Differences()...)
}

// Write prints the report in one of the formats of --output.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteWithPlot(out, format, r, r.text, r.comparison().Plot)
}
