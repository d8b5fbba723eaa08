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

// result is what one setup has cost while writes were made at a rate.
type result struct {
	Setup string `json:"setup"`
	// Informers is 0 if nobody read.
	Informers int `json:"informers"`
	Clients   int `json:"clients,omitempty"` // connections
	// Watches are open at the upstream, besides its own.
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

// openCost is what it has cost to open all informers at once.
type openCost struct {
	Seconds float64 `json:"seconds"` // until all had all objects
	Writes  int     `json:"writes"`  // that were made meanwhile
	// Requests are those that the upstream has answered, without the writes. Watches that
	// go on do not count.
	Requests int `json:"requests"`
	// PassedOn is how many requests a replica has passed on.
	PassedOn int `json:"passedOn,omitempty"`
	costs
}

// Write prints the report in one of the formats of --output.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteWithPlot(out, format, r, r.text, r.plot)
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

// find returns the result of a setup, or nil if it was not measured.
func (r *report) find(setup string, informers int) *result {
	for i := range r.Results {
		if res := &r.Results[i]; res.Setup == setup && res.Informers == informers && res.Error == "" {
			return res
		}
	}
	return nil
}

// alone is the result of a setup whose writes nobody read, or nil.
func (r *report) alone(setup string) *result { return r.find(setup, 0) }

// one is the result of one informer of each resource at the upstream, or nil.
func (r *report) one() *result { return r.find(setupDirect, len(watchedResources())) }

// server is the process at which informers read, or the sum of them.
func (c *costs) server() *cost {
	return cmp.Or(c.tier(), &c.Upstream)
}

// eventMicros is the CPU for one event, of the process at which informers read: all of it,
// and without what the same writes cost that process with nobody reading.
func (r *report) eventMicros(res *result) (all, net float64) {
	used := res.server().CPUSeconds
	all = used / float64(res.Events) * 1e6
	alone := r.alone(res.Setup)
	if alone == nil {
		return all, 0
	}
	return all, max(0, used-share(alone, alone.server().CPUSeconds, res.Writes)) / float64(res.Events) * 1e6
}

// share is the part of what writes without readers cost, for so many writes.
func share(alone *result, value float64, writes int) float64 {
	return value / float64(alone.Writes) * float64(writes)
}
