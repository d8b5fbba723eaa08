package replica

import (
	"cmp"
	"io"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// report is everything that "bench replica" has measured. "-o json" prints it.
type report struct {
	Started  time.Time       `json:"started"`
	Machine  testbed.Machine `json:"machine"`
	Plan     plan            `json:"plan"`
	Upstream string          `json:"upstream"` // program and version
	Results  []result        `json:"results"`
}

// result is the cost of one setup while writes were made at a rate.
type result struct {
	Setup string `json:"setup"`
	// Informers is 0 for writes without readers.
	Informers int `json:"informers"`
	Clients   int `json:"clients,omitempty"` // connections
	// Watches is the number of watches at the upstream, less the upstream's own.
	Watches int       `json:"watches,omitempty"`
	Opening *openCost `json:"opening,omitempty"`

	Writes       int     `json:"writes"`
	WritesPerSec float64 `json:"writesPerSecond"`   // the rate that was reached
	Events       int     `json:"events,omitempty"`  // received by all informers together
	Resumed      int     `json:"resumed,omitempty"` // watches that the server had ended
	Retries      int     `json:"retries,omitempty"` // watches that the server had refused for a time
	// Millis are the times from right before a write to the receipt of its event.
	Millis render.Latencies `json:"millis,omitzero"`
	costs
	Error string `json:"error,omitempty"` // not empty: nothing was measured
}

// openCost is the cost of opening all informers at once.
type openCost struct {
	Seconds float64 `json:"seconds"` // until each informer had all objects
	Writes  int     `json:"writes"`  // made meanwhile
	// Requests is the number of requests that the upstream has answered, without the writes. Open
	// watches do not count.
	Requests int `json:"requests"`
	// PassedOn is the number of requests that replicas have passed on.
	PassedOn int `json:"passedOn,omitempty"`
	costs
}

// Write implements testbed.Report.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteWithPlot(out, format, r, r.text, r.plot)
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

// find returns the result of a setup, or nil if it was not measured.
func (r *report) find(setup string, informers int) *result {
	for i := range r.Results {
		if res := &r.Results[i]; res.Setup == setup && res.Informers == informers && res.Error == "" {
			return res
		}
	}
	return nil
}

// withoutReaders returns the result of a setup's writes without readers, or nil.
func (r *report) withoutReaders(setup string) *result { return r.find(setup, 0) }

// oneInformerEach returns the result of one informer of each resource at the upstream, or nil.
func (r *report) oneInformerEach() *result { return r.find(setupDirect, len(watchedResources())) }

// readProcess returns the cost of the process at which informers read, or the sum of several.
func (c *costs) readProcess() *cost {
	return cmp.Or(c.tier(), &c.Upstream)
}

// eventMicros returns the CPU for one event in microseconds, of the process at which informers
// read. net is the CPU less what the same writes cost that process without readers.
func (r *report) eventMicros(res *result) (gross, net float64) {
	used := res.readProcess().CPUSeconds
	gross = used / float64(res.Events) * 1e6
	alone := r.withoutReaders(res.Setup)
	if alone == nil {
		return gross, 0
	}
	return gross, max(0, used-costOfWrites(alone, alone.readProcess().CPUSeconds, res.Writes)) / float64(res.Events) * 1e6
}

// costOfWrites returns the cost of a number of writes without readers. value is the cost of all
// writes of alone.
func costOfWrites(alone *result, value float64, writes int) float64 {
	return value / float64(alone.Writes) * float64(writes)
}
