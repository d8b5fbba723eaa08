package load

import (
	"fmt"

	"github.com/millrace/millrace/internal/tool/render"
)

// Comparison has the results of several servers and the floor for the same workloads. It is a
// view of a report.
type Comparison struct {
	Servers []ServerResults
	Floor   []Result // nil: the floor was not measured
}

// ServerResults are the results of one server.
type ServerResults struct {
	Name    string
	Results []Result
}

// workloads returns the names of the workloads, in the order in which they ran.
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

// FailureCount returns the number of results that have an error, over all servers and the
// floor.
func (c Comparison) FailureCount() int {
	n := 0
	for _, s := range append([]ServerResults{{"floor", c.Floor}}, c.Servers...) {
		n += len(s.FailureNotes())
	}
	return n
}

// FailureNotes returns a note for each workload that was not measured, with the reason.
func (s ServerResults) FailureNotes() (notes []string) {
	for _, res := range s.Results {
		if res.Error != "" {
			notes = append(notes, fmt.Sprintf("failed on %s: %s: %s", s.Name, res.Workload, res.Error))
		}
	}
	return notes
}

// Notes returns FailureNotes, and a note for each requested encoding that the server did not
// send.
func (s ServerResults) Notes() []string {
	notes := s.FailureNotes()
	for _, res := range s.Results {
		if res.Error == "" && res.ContentEncoding != res.AcceptEncoding {
			notes = append(notes, fmt.Sprintf("%s: %s does not send %s", res.Workload, s.Name, res.AcceptEncoding))
		}
	}
	return notes
}

// Differences returns a note for each workload for which two servers sent different numbers of
// items: their costs cannot be compared. With another number of servers than two it returns nil.
func (c Comparison) Differences() (notes []string) {
	if len(c.Servers) != 2 {
		return nil
	}
	a, b := c.Servers[0], c.Servers[1]
	for _, name := range c.workloads() {
		x, y := FindResult(a.Results, name), FindResult(b.Results, name)
		if x != nil && y != nil && x.Items != y.Items {
			notes = append(notes, fmt.Sprintf("%s: %s sent %d items, %s %d", name, a.Name, x.Items, b.Name, y.Items))
		}
	}
	return notes
}

// Plot returns a plot of the CPU that each server spent on a request.
func (c Comparison) Plot() render.Plot {
	p := render.Plot{Title: "Server CPU per request, milliseconds (logarithmic)", Groups: c.workloads(), Format: render.FormatNumber}
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

// ServerLine returns the line about a server in a report's footer. It leaves zeros out.
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

// FooterLine returns the line about the load in a report's footer. run says how requests were
// sent.
func (p Plan) FooterLine(run string) string {
	amount := fmt.Sprintf("%d requests per workload", p.Requests)
	if p.Requests == 0 {
		amount = fmt.Sprintf("%s per workload", p.Duration)
	}
	if p.Every > 0 {
		run += fmt.Sprintf(", one request of each client every %s", p.Every)
	}
	return fmt.Sprintf("%s, %s after %d to warm up; CPU ms is the server's, per request", run, amount, p.Warmup)
}
