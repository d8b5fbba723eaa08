package servers

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// report is everything that "bench servers" has measured. "-o json" prints it.
type report struct {
	Started time.Time          `json:"started"`
	Machine testbed.Machine    `json:"machine"`
	Data    testbed.FillConfig `json:"data"`
	Plan    plan               `json:"plan"`
	Results []result           `json:"results"`
}

// result is the cost of one workload in one setup. CPU is per request.
type result struct {
	ReadPath string `json:"path"`
	Servers  int    `json:"servers"`
	Replicas int    `json:"replicas,omitempty"`
	Workload string `json:"workload,omitempty"`
	Clients  int    `json:"clients,omitempty"`
	Version  string `json:"version,omitempty"` // of the first server
	// Rate is the planned rate, in requests per second. 0: as fast as clients got answers.
	Rate float64 `json:"rate,omitempty"`

	Requests       int              `json:"requests,omitempty"`
	RequestsPerSec float64          `json:"requestsPerSecond,omitempty"`
	Bytes          int64            `json:"bytes,omitempty"` // per request
	Millis         render.Latencies `json:"millis,omitzero"`
	// CPUMillis is the CPU of all servers or replicas at which clients read. UpstreamCPUMillis is
	// the CPU of the replicas' server.
	CPUMillis         float64 `json:"cpuMillis,omitempty"`
	UpstreamCPUMillis float64 `json:"upstreamCPUMillis,omitempty"`
	ProxyCPUMillis    float64 `json:"proxyCPUMillis,omitempty"`
	EtcdCPUMillis     float64 `json:"etcdCPUMillis,omitempty"`
	ClientCPUMillis   float64 `json:"clientCPUMillis,omitempty"`
	// RSSBytes is the memory of all servers or replicas at which clients read.
	RSSBytes int64  `json:"rssBytes,omitempty"`
	Error    string `json:"error,omitempty"` // not empty: nothing was measured
}

// readAt returns where clients read, in words.
func (r *result) readAt() string {
	name := map[string]string{testbed.ReadPathMillrace: "millrace serve", testbed.ReadPathKubernetes: "stock read path"}[r.ReadPath]
	if name == "" {
		name = r.ReadPath
	}
	if r.Replicas > 0 {
		return fmt.Sprintf("%d × replica of %s", r.Replicas, name)
	}
	return fmt.Sprintf("%d × %s", r.Servers, name)
}

// Write implements testbed.Report.
func (r *report) Write(out io.Writer, format string) error {
	return render.WriteWithPlot(out, format, r, r.text, r.plot)
}

// title returns how a LIST is sent, in words that start with name.
func (w workload) title(name string) string {
	if w.rate > 0 {
		return fmt.Sprintf("%s, %g requests/s", name, w.rate)
	}
	return fmt.Sprintf("%s, %d clients", name, w.clients)
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

// text returns the report in a format of tables.
func (r *report) text(format string) string {
	var tables []render.TitledTable
	for _, w := range r.Plan.workloads() {
		tables = append(tables, r.table(w))
	}
	return render.Document(format, nil, tables, r.footer())
}

// table returns the table of a workload, with a row for each setup.
func (r *report) table(w workload) render.TitledTable {
	var rows []*result
	for i := range r.Results {
		if res := &r.Results[i]; res.Workload == w.name && res.Rate == w.rate {
			rows = append(rows, res)
		}
	}
	const group = "CPU ms per request"
	var fields render.Fields[*result]
	fields.Add("read at", func(r *result) string { return r.readAt() })
	fields.Add("requests/s", func(r *result) string { return render.FormatNumber(r.RequestsPerSec) })
	fields.Add("p50 ms", func(r *result) string { return render.FormatNumber(r.Millis.P50) })
	fields.Add("p99 ms", func(r *result) string { return render.FormatNumber(r.Millis.P99) })
	fields.Add("MB", func(r *result) string { return render.FormatNumber(float64(r.Bytes) / 1e6) })
	fields.AddToGroup(group, "read at", func(r *result) string { return render.FormatNumber(r.CPUMillis) })
	fields.AddToGroup(group, "upstream", func(r *result) string {
		if r.Replicas == 0 {
			return "-"
		}
		return render.FormatNumber(r.UpstreamCPUMillis)
	})
	fields.AddToGroup(group, "etcd", func(r *result) string { return render.FormatNumber(r.EtcdCPUMillis) })
	fields.AddToGroup(group, "client", func(r *result) string { return render.FormatNumber(r.ClientCPUMillis) })
	fields.Add("RSS", func(r *result) string { return render.FormatBytes(r.RSSBytes) })
	return render.TitledTable{Title: "GET " + w.title(w.uri), Table: *fields.Table(rows)}
}

// transport returns how clients read, in words.
func (p plan) transport() string {
	if p.Proxy {
		return "over HTTP/1.1 through kubectl's proxy, whose CPU is in no column"
	}
	return "over HTTP/2 and TLS"
}

// plot returns a plot of the requests per second.
func (r *report) plot() render.Plot {
	p := render.Plot{Title: "LISTs per second", Format: render.FormatNumber}
	for _, w := range r.Plan.workloads() {
		p.Groups = append(p.Groups, w.title(w.name))
	}
	for i := range r.Results {
		res := &r.Results[i]
		if res.Error != "" {
			continue
		}
		index := slices.IndexFunc(p.Series, func(s render.Series) bool { return s.Name == res.readAt() })
		if index < 0 {
			index = len(p.Series)
			p.Series = append(p.Series, render.Series{Name: res.readAt(), Values: map[string]float64{}})
		}
		p.Series[index].Values[workload{clients: res.Clients, rate: res.Rate}.title(res.Workload)] = res.RequestsPerSec
	}
	return p
}

// footer returns lines about the load and the machine, and what failed.
func (r *report) footer() []string {
	lines := []string{
		fmt.Sprintf("%s; JSON %s, %s for each row; etcd runs in a process of its own, and all processes share this machine", r.Data,
			r.Plan.transport(), r.Plan.Duration),
		r.Machine.String() + ", " + r.Started.UTC().Format(time.RFC3339),
	}
	for i := range r.Results {
		if res := &r.Results[i]; res.Error != "" {
			lines = append(lines, fmt.Sprintf("failed: %s: %s", res.readAt(), res.Error))
		}
	}
	return lines
}
