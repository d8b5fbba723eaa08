package storm

import (
	"io"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/hollow"
	"github.com/millrace/millrace/internal/tool/render"
)

// The storms.
const (
	clientsNew       = "new"
	clientsReturning = "returning"
)

// report is everything that "bench storm" has measured. "-o json" prints it.
type report struct {
	Started time.Time       `json:"started"`
	Machine testbed.Machine `json:"machine"`
	// LoadAverage is that of the minute before.
	LoadAverage string             `json:"loadAverage"`
	Data        testbed.FillConfig `json:"data"`
	Plan        plan               `json:"plan"`
	Results     []result           `json:"results"`
}

// result is one storm at one server. All of it is from the start of the server's process until
// all informers were synced.
type result struct {
	Path    string `json:"path"`
	Clients string `json:"clients"` // new or returning
	Version string `json:"version,omitempty"`

	ReadySeconds float64 `json:"readySeconds,omitempty"` // until /readyz
	Informers    int     `json:"informers,omitempty"`
	// SyncedSeconds says when 1, 2, … 100 % of the informers were synced.
	SyncedSeconds []float64 `json:"syncedSeconds,omitempty"`

	CPUSeconds       float64 `json:"cpuSeconds,omitempty"`
	PeakBytes        int64   `json:"peakBytes,omitempty"` // resident
	SentBytes        int64   `json:"sentBytes,omitempty"` // after TLS
	EtcdCPUSeconds   float64 `json:"etcdCPUSeconds,omitempty"`
	ClientCPUSeconds float64 `json:"clientCPUSeconds,omitempty"`

	// Lists is how many informers had to list: all new ones, and those that could not resume.
	Lists    int                `json:"lists,omitempty"`
	Refused  int                `json:"refused,omitempty"` // requests, with 429
	Failures []hollow.ErrorKind `json:"failures,omitempty"`
	// FirstGetSeconds is when a bystander got its first answer. Gets and GetMillis are of its
	// later GETs.
	FirstGetSeconds float64          `json:"firstGetSeconds,omitempty"`
	Gets            int              `json:"gets,omitempty"`
	GetMillis       render.Latencies `json:"getMillis,omitzero"`
	Error           string           `json:"error,omitempty"` // not empty: nothing was measured
}

// setSynced sets when informers were synced.
func (r *result) setSynced(times []time.Duration) {
	slices.Sort(times)
	r.Informers, r.SyncedSeconds = len(times), nil
	for percent := 1; percent <= 100; percent++ {
		r.SyncedSeconds = append(r.SyncedSeconds, render.Percentile(times, float64(percent)).Round(time.Millisecond).Seconds())
	}
}

// synced is when so many percent of the informers were synced, in seconds.
func (r *result) synced(percent int) float64 {
	if len(r.SyncedSeconds) != 100 {
		return 0
	}
	return r.SyncedSeconds[percent-1]
}

func (r *result) setGets(seen answers) {
	r.FirstGetSeconds, r.Gets, r.GetMillis = seen.first.Seconds(), len(seen.times), render.Summarize(seen.times)
}

// failed is how many requests failed otherwise than with 429.
func (r *result) failed() (n int64) {
	for _, kind := range r.Failures {
		n += kind.Count
	}
	return n
}

// server is what is measured, in words.
func (r *result) server() string {
	if r.Path == testbed.ReadPathKubernetes {
		return "stock read path"
	}
	return r.Path
}

// name is the server and its clients.
func (r *result) name() string { return r.server() + ", " + r.Clients }

// Write prints the report in one of the formats of --output.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteReport(out, format, r, r.text)
}

// Failures implements testbed.Report.
func (r *report) Failures() (n int) {
	for i := range r.Results {
		if r.Results[i].Error != "" {
			n++
		}
	}
	return n
}
