package bench

import (
	"fmt"
	"io"
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
}

// failedSections are the sections without a measurement, with the reasons.
func (s *serverReport) failedSections() []string {
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
	if s.Stalled != nil {
		add(listStalled, s.Stalled.Error)
	}
	return failed
}

// comparison is the part of the report that "bench discovery" has too.
func (r *report) comparison() comparison {
	c := comparison{floor: r.Floor}
	for _, s := range r.Servers {
		c.servers = append(c.servers, serverResults{s.Name, s.Results})
	}
	return c
}

// failures counts workloads and sections without a measurement.
func (r *report) failures() int {
	n := r.comparison().failures()
	for _, s := range r.Servers {
		n += len(s.failedSections())
	}
	return n
}

// check notes what failed and where two servers did not do the same work.
func (r *report) check() {
	c := r.comparison()
	for i, s := range r.Servers {
		r.Notes = append(r.Notes, c.servers[i].notes()...)
		for _, failed := range s.failedSections() {
			r.Notes = append(r.Notes, fmt.Sprintf("failed on %s: %s", s.Name, failed))
		}
		if s.Stalled != nil && s.Stalled.FirstFailure != "" {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %s: first LIST that was not whole: %s", s.Name, listStalled, s.Stalled.FirstFailure))
		}
	}
	r.Notes = append(r.Notes, serverResults{"floor", r.Floor}.failures()...)
	r.Notes = append(r.Notes, c.differences()...)
}

// write prints the report in one of the formats of --output.
func (r *report) write(out io.Writer, format string) error {
	return writePlotted(out, format, r, r.text, r.comparison().plot)
}
