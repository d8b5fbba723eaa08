package papers

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/tool/display"
)

const stepServers = "servers"

// offeredRates are the rates at which nodes are listed, in requests a second.
func offeredRates() []float64 { return []float64{10, 20, 50, 100} }

// paperE is one API server against two.
func paperE() *Paper {
	return &Paper{
		Name: "e", Title: "One API server against two",
		Original: "ApacheBench through kubectl proxy at a cluster of hollow nodes: all nodes (3.3 MB) with 20 clients, and 10,000 pods of one namespace (48 MB) with 5; at one API server, and at two behind a balancer.",
		Differs: []string{
			"Clients, proxy, servers and etcd share this machine, so a second server has no cores of its own: what it costs counts, not what it adds.",
			"kubectl's own proxy hands requests to two servers in turn, in the place of a balancer in front of two proxies. It asks servers for gzip, as it does for every client that names no encoding.",
			"Clients keep their connections. ApacheBench opens one for each request unless told otherwise.",
			"A node is larger here than a hollow one.",
			"The rates of 10 to 100 requests/s are ours: clients send them whether or not answers come, and times begin when a request is due.",
		},
		Scale: 1, Minutes: "2 minutes",
		steps: func(s size) []step {
			var rates []string
			for _, r := range offeredRates() {
				rates = append(rates, fmt.Sprint(r))
			}
			return []step{{name: stepServers, args: []string{
				"servers", "--servers=1,2", "--replicas=0", "--proxy", "--rates=" + strings.Join(rates, ","), s.flag("duration", 5*time.Second), s.flag("settle", time.Second), "--pod-size=4.8KB",
				"--nodes=" + s.of(1000, 1), "--pods=" + s.of(10_000, 1),
			}}}
		},
		view: viewE,
	}
}

// setups has a value of a workload with a number of servers, of each read path.
func (d *printout) setups(servers int, workload string, rate float64, of func(*setupResult) float64) map[string]float64 {
	values := map[string]float64{}
	for i := range d.Results {
		if r := &d.Results[i]; r.Servers == servers && r.Workload == workload && r.Rate == rate && r.Error == "" {
			values[r.Path] = of(r)
		}
	}
	return values
}

// publishedRun is what the paper has of one run at one server.
type publishedRun struct {
	workload, name   string
	perSecond, p99ms float64
}

func viewE(r *results) []Section {
	d := r.of(stepServers)
	var sections []Section
	for _, run := range []publishedRun{
		{"nodes", "All nodes, 20 clients", 46.9, 1029},
		{"pods", "All pods, 5 clients", 2.97, 2255},
	} {
		sections = append(sections, runSection(r, d, run))
	}
	rates := Section{Title: "All nodes at given rates", Note: "What a server does that is asked more than it can answer: how many answers it gave, and how long clients waited."}
	for _, rate := range offeredRates() {
		for _, servers := range []int{1, 2} {
			name := fmt.Sprintf("%g requests/s, %s", rate, display.Plural(servers, "server"))
			rates.add(Row{Name: name + ": answered", Unit: unitRate, Values: d.setups(servers, "nodes", rate, func(s *setupResult) float64 { return s.RequestsPerSec })})
			rates.add(Row{Name: name + ": p99", Unit: unitMillis, Values: d.setups(servers, "nodes", rate, func(s *setupResult) float64 { return s.Millis.P99 })})
		}
	}
	return append(sections, rates)
}

// runSection is one run of ApacheBench, at one server and at two.
func runSection(r *results, d *printout, run publishedRun) Section {
	s := Section{Title: run.name}
	for _, servers := range []int{1, 2} {
		at := display.Plural(servers, "server")
		throughput := Row{Name: at + ": requests/s", Unit: unitRate, Published: "as one server",
			Values: d.setups(servers, run.workload, 0, func(s *setupResult) float64 { return s.RequestsPerSec })}
		p99 := Row{Name: at + ": p99", Unit: unitMillis, Published: "9 % from one server",
			Values: d.setups(servers, run.workload, 0, func(s *setupResult) float64 { return s.Millis.P99 })}
		if servers == 1 {
			throughput.PublishedValue, p99.PublishedValue = r.comparable(run.perSecond), r.comparable(run.p99ms)
			throughput.Published, p99.Published = unitRate.format(run.perSecond), unitMillis.format(run.p99ms)
		}
		s.add(throughput)
		s.add(p99)
		s.add(Row{Name: at + ": CPU of all servers for a request", Unit: unitMillis, Values: d.setups(servers, run.workload, 0, func(s *setupResult) float64 { return s.CPUMillis })})
		s.add(Row{Name: at + ": memory of all servers", Unit: unitBytes, Values: d.setups(servers, run.workload, 0, func(s *setupResult) float64 { return float64(s.RSSBytes) })})
	}
	for i := range d.Results {
		if one := &d.Results[i]; one.Workload == run.workload && one.Error == "" {
			s.Note = "An answer here has " + unitBytes.format(float64(one.Bytes)) + " as clients receive it."
		}
	}
	return s
}
