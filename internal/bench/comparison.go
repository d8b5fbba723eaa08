package bench

import "fmt"

// comparison is what servers, and the floor, needed for the same workloads.
type comparison struct {
	servers []serverResults
	floor   []result // nil: it was not measured
}

// serverResults are those of one server.
type serverResults struct {
	name    string
	results []result
}

// workloads returns the names in the order in which they were run.
func (c comparison) workloads() []string {
	var names []string
	seen := map[string]bool{}
	for _, s := range c.servers {
		for _, res := range s.results {
			if !seen[res.Workload] {
				seen[res.Workload] = true
				names = append(names, res.Workload)
			}
		}
	}
	return names
}

// failures counts workloads without a measurement.
func (c comparison) failures() int {
	n := 0
	for _, s := range append([]serverResults{{"floor", c.floor}}, c.servers...) {
		n += len(s.failures())
	}
	return n
}

// failures says which workloads were not measured, and why.
func (s serverResults) failures() (notes []string) {
	for _, res := range s.results {
		if res.Error != "" {
			notes = append(notes, fmt.Sprintf("failed on %s: %s: %s", s.name, res.Workload, res.Error))
		}
	}
	return notes
}

// notes says what failed on a server, and which encodings it does not send.
func (s serverResults) notes() []string {
	notes := s.failures()
	for _, res := range s.results {
		if res.Error == "" && res.ContentEncoding != res.AcceptEncoding {
			notes = append(notes, fmt.Sprintf("%s: %s does not send %s", res.Workload, s.name, res.AcceptEncoding))
		}
	}
	return notes
}

// differences says where two servers did not do the same work.
func (c comparison) differences() (notes []string) {
	if len(c.servers) != 2 {
		return nil
	}
	a, b := c.servers[0], c.servers[1]
	for _, name := range c.workloads() {
		x, y := find(a.results, name), find(b.results, name)
		if x != nil && y != nil && x.Items != y.Items {
			notes = append(notes, fmt.Sprintf("%s: %s sent %d items, %s %d", name, a.name, x.Items, b.name, y.Items))
		}
	}
	return notes
}

// plot shows the CPU that each server spends on a request.
func (c comparison) plot() plot {
	p := plot{title: "Server CPU a request, milliseconds (logarithmic)", names: c.workloads(), format: formatNumber}
	add := func(name string, results []result) {
		s := series{name: name, values: map[string]float64{}}
		for _, res := range results {
			if res.Error == "" && res.Server != nil && res.Server.CPUMillis > 0 {
				s.values[res.Workload] = res.Server.CPUMillis
			}
		}
		p.all = append(p.all, s)
	}
	for _, s := range c.servers {
		add(s.name, s.results)
	}
	if len(c.floor) > 0 {
		add("Go's HTTP server, same bytes from memory", c.floor)
	}
	return p
}

// serverLine says in a report's footer what a server is.
func serverLine(name, version string, startMillis float64, idleBytes int64) string {
	line := name + ": " + version
	if startMillis > 0 {
		line += fmt.Sprintf(", ready in %s s", formatNumber(startMillis/1000))
	}
	if idleBytes > 0 {
		line += ", RSS before the first request " + formatBytes(idleBytes)
	}
	return line
}

// line says in a report's footer how much load the workloads got. run is how they
// were sent.
func (p plan) line(run string) string {
	amount := fmt.Sprintf("%d requests a workload", p.Requests)
	if p.Requests == 0 {
		amount = fmt.Sprintf("%s a workload", p.Duration)
	}
	return fmt.Sprintf("%s, %s after %d to warm up; CPU ms is the server's, a request", run, amount, p.Warmup)
}
