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
	// LoadAverage is the load of the machine in the minute before.
	LoadAverage string             `json:"loadAverage"`
	Data        testbed.FillConfig `json:"data"`
	Plan        plan               `json:"plan"`
	Results     []result           `json:"results"`
}

// result is one storm at one server. All figures are from the start of the server's process until all
// informers were synced.
type result struct {
	ReadPath string `json:"path"`
	Clients  string `json:"clients"` // new or returning
	Version  string `json:"version,omitempty"`

	ReadySeconds float64 `json:"readySeconds,omitempty"` // until /readyz
	Informers    int     `json:"informers,omitempty"`
	// SyncedSeconds are the times at which 1, 2, … 100 % of the informers were synced.
	SyncedSeconds []float64 `json:"syncedSeconds,omitempty"`

	CPUSeconds       float64 `json:"cpuSeconds,omitempty"`
	PeakBytes        int64   `json:"peakBytes,omitempty"` // resident
	SentBytes        int64   `json:"sentBytes,omitempty"` // after TLS
	EtcdCPUSeconds   float64 `json:"etcdCPUSeconds,omitempty"`
	ClientCPUSeconds float64 `json:"clientCPUSeconds,omitempty"`

	// Lists is the number of informers that had to list: all new ones, and returning ones that could
	// not resume.
	Lists    int                `json:"lists,omitempty"`
	Refused  int                `json:"refused,omitempty"` // requests answered with 429
	Failures []hollow.ErrorKind `json:"failures,omitempty"`
	// FirstGetSeconds is the time until the bystander's first answer. Gets and GetMillis are of its
	// later GETs.
	FirstGetSeconds float64          `json:"firstGetSeconds,omitempty"`
	Gets            int              `json:"gets,omitempty"`
	GetMillis       render.Latencies `json:"getMillis,omitzero"`
	Error           string           `json:"error,omitempty"` // not empty: nothing was measured
}

// setSynced sets Informers and SyncedSeconds by the time at which each informer was synced. It sorts
// times.
func (r *result) setSynced(times []time.Duration) {
	slices.Sort(times)
	r.Informers = len(times)
	r.SyncedSeconds = nil
	for percent := 1; percent <= 100; percent++ {
		r.SyncedSeconds = append(r.SyncedSeconds, render.Percentile(times, float64(percent)).Round(time.Millisecond).Seconds())
	}
}

// syncedSeconds returns the time at which percent of the informers were synced. It returns 0 if that
// was not measured.
func (r *result) syncedSeconds(percent int) float64 {
	if len(r.SyncedSeconds) != 100 {
		return 0
	}
	return r.SyncedSeconds[percent-1]
}

// setGets sets the results of the bystander.
func (r *result) setGets(a answers) {
	r.FirstGetSeconds, r.Gets, r.GetMillis = a.first.Seconds(), len(a.times), render.Summarize(a.times)
}

// failureCount returns the number of requests that failed with anything but a 429.
func (r *result) failureCount() (n int64) {
	for _, kind := range r.Failures {
		n += kind.Count
	}
	return n
}

// server returns the server of the storm, in words.
func (r *result) server() string {
	if r.ReadPath == testbed.ReadPathKubernetes {
		return "stock read path"
	}
	return r.ReadPath
}

// name returns the server and its clients, in words.
func (r *result) name() string { return r.server() + ", " + r.Clients }

// Write implements testbed.Report.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteReport(out, format, r, r.text)
}

// FailureCount implements testbed.Report.
func (r *report) FailureCount() (n int) {
	for i := range r.Results {
		if r.Results[i].Error != "" {
			n++
		}
	}
	return n
}
