package load

import (
	"time"

	"github.com/millrace/millrace/internal/tool/render"
)

// Result is the cost of one workload on one server. Fields marked "per request" are means over
// the measured requests.
type Result struct {
	Workload        string           `json:"workload"`
	URI             string           `json:"uri"`
	Concurrency     int              `json:"concurrency"`
	AcceptEncoding  string           `json:"acceptEncoding,omitempty"`
	ContentEncoding string           `json:"contentEncoding,omitempty"`
	Items           int              `json:"items"`
	Requests        int              `json:"requests"`
	Seconds         float64          `json:"seconds"`
	Bytes           int64            `json:"bytes"` // per request, on the wire
	RequestsPerSec  float64          `json:"requestsPerSecond"`
	ColdMillis      float64          `json:"coldMillis"` // of the cold (first) request
	ColdCPUMillis   float64          `json:"coldCPUMillis,omitempty"`
	Refused         int              `json:"refused,omitempty"` // 429s before the first answer
	Millis          render.Latencies `json:"millis"`
	Server          *ServerCost      `json:"server,omitempty"`
	ClientCPUMillis float64          `json:"clientCPUMillis"` // per request
	Error           string           `json:"error,omitempty"` // not empty: nothing was measured
}

// ServerCost is the server's CPU and memory, by a testbed.Meter.
type ServerCost struct {
	CPUMillis float64 `json:"cpuMillis"` // per request
	RSSBytes  int64   `json:"rssBytes"`  // after the workload
	PeakBytes int64   `json:"peakBytes"` // during the workload, if the kernel lets peaks be reset
}

// newResult returns the result of a workload by what its clients measured.
func newResult(w Workload, clients []clientSamples, elapsed time.Duration) Result {
	var samples []time.Duration
	var bytes int64
	for _, client := range clients {
		samples = append(samples, client.samples...)
		bytes += client.bytes
	}
	n := len(samples)
	return Result{
		Workload:       w.Name,
		URI:            w.URI,
		Concurrency:    w.Concurrency,
		AcceptEncoding: w.Encoding,
		Requests:       n,
		Seconds:        elapsed.Seconds(),
		Bytes:          bytes / int64(max(n, 1)),
		RequestsPerSec: float64(n) / elapsed.Seconds(),
		Millis:         render.Summarize(samples),
	}
}

// FindResult returns the result of a workload, or nil if the workload was not measured.
func FindResult(results []Result, workload string) *Result {
	for i := range results {
		if results[i].Workload == workload && results[i].Error == "" {
			return &results[i]
		}
	}
	return nil
}
