package load

import (
	"fmt"

	"github.com/millrace/millrace/internal/bench/render"
)

// Comparison is what servers, and the floor, needed for the same workloads.
type Comparison struct {
	Servers []ServerResults
	Floor   []Result // nil: it was not measured
}

// ServerResults are those of one server.
type ServerResults struct {
	Name    string
	Results []Result
}

// workloads returns the names in the order in which they were run.
func (c Comparison) workloads() []string {
	var names []string
	seen := map[string]bool{}
	for _, s := range c.Servers {
		for _, res := range s.Results {
			if !seen[res.Workload] {
				seen[res.Workload] = true
				names = append(names, res.Workload)
			}
		}
	}
	return names
}

// Failures counts workloads without a measurement.
func (c Comparison) Failures() int {
	n := 0
	for _, s := range append([]ServerResults{{"floor", c.Floor}}, c.Servers...) {
		n += len(s.Failures())
	}
	return n
}

// Failures says which workloads were not measured, and why.
func (s ServerResults) Failures() (notes []string) {
	for _, res := range s.Results {
		if res.Error != "" {
			notes = append(notes, fmt.Sprintf("failed on %s: %s: %s", s.Name, res.Workload, res.Error))
		}
	}
	return notes
}

// Notes says what failed on a server, and which encodings it does not send.
func (s ServerResults) Notes() []string {
	notes := s.Failures()
	for _, res := range s.Results {
		if res.Error == "" && res.ContentEncoding != res.AcceptEncoding {
			notes = append(notes, fmt.Sprintf("%s: %s does not send %s", res.Workload, s.Name, res.AcceptEncoding))
		}
	}
	return notes
}

// Differences says where two servers did not do the same work.
func (c Comparison) Differences() (notes []string) {
	if len(c.Servers) != 2 {
		return nil
	}
	a, b := c.Servers[0], c.Servers[1]
	for _, name := range c.workloads() {
		x, y := Find(a.Results, name), Find(b.Results, name)
		if x != nil && y != nil && x.Items != y.Items {
			notes = append(notes, fmt.Sprintf("%s: %s sent %d items, %s %d", name, a.Name, x.Items, b.Name, y.Items))
		}
	}
	return notes
}

// Plot shows the CPU that each server spends on a request.
func (c Comparison) Plot() render.Plot {
	p := render.Plot{Title: "Server CPU a request, milliseconds (logarithmic)", Names: c.workloads(), Format: render.FormatNumber}
	add := func(name string, results []Result) {
		s := render.Series{Name: name, Values: map[string]float64{}}
		for _, res := range results {
			if res.Error == "" && res.Server != nil && res.Server.CPUMillis > 0 {
				s.Values[res.Workload] = res.Server.CPUMillis
			}
		}
		p.Series = append(p.Series, s)
	}
	for _, s := range c.Servers {
		add(s.Name, s.Results)
	}
	if len(c.Floor) > 0 {
		add("Go's HTTP server, same bytes from memory", c.Floor)
	}
	return p
}

// ServerLine says in a report's footer what a server is.
func ServerLine(name, version string, startMillis float64, idleBytes int64) string {
	line := name + ": " + version
	if startMillis > 0 {
		line += fmt.Sprintf(", ready in %s s", render.FormatNumber(startMillis/1000))
	}
	if idleBytes > 0 {
		line += ", RSS before the first request " + render.FormatBytes(idleBytes)
	}
	return line
}

// FooterLine says in a report's footer how much load the workloads got. run is how they
// were sent.
func (p Plan) FooterLine(run string) string {
	amount := fmt.Sprintf("%d requests a workload", p.Requests)
	if p.Requests == 0 {
		amount = fmt.Sprintf("%s a workload", p.Duration)
	}
	return fmt.Sprintf("%s, %s after %d to warm up; CPU ms is the server's, a request", run, amount, p.Warmup)
}
