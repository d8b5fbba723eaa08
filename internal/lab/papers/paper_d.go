package papers

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// builtInGroupVersions is how many group versions Kubernetes 1.37 has without definitions.
const builtInGroupVersions = 23

// limitD is a limit of client-go's discovery client, and what the paper has for it.
type limitD struct {
	qps, burst int
	// published is by group versions.
	published map[int]string
	values    map[int]float64
}

func (l limitD) flag() string {
	if l.qps == 0 {
		return "none"
	}
	return fmt.Sprintf("%d/%d", l.qps, l.burst)
}

func (l limitD) String() string {
	if l.qps == 0 {
		return "no limit"
	}
	return fmt.Sprintf("%d requests/s, %d at once", l.qps, l.burst)
}

// limitsD are the paper's limits, and none. It has times for the first and the later ones.
func limitsD() []limitD {
	return []limitD{
		{5, 100, map[int]string{192: "20 s", 368: "50 s"}, map[int]float64{192: 20, 368: 50}},
		{50, 300, map[int]string{192: "9.6 s", 368: "17.7 s"}, map[int]float64{192: 9.6, 368: 17.7}},
		{50, 400, nil, nil},
		{},
	}
}

func groupVersionsD() []int { return []int{192, 368, 420} }

// definitionsD are many definitions, or large ones.
type definitionsD struct {
	step                     string
	crds, groups, properties int
	idle, loaded             string // published memory: before, and with the definitions
	idleBytes, loadedBytes   float64
}

func definitionSetsD() []definitionsD {
	return []definitionsD{
		{"definitions-780", 780, 200, 100, "0.6 GB", "3.8 GB", 0.6e9, 3.8e9},
		{"definitions-2000", 2000, 400, 100, "", "no disruption, as a wish", 0, 0},
		{"definitions-190", 190, 190, 5000, "", "5 GB", 0, 5e9},
	}
}

// paperD is thousands of definitions.
func paperD() *Paper {
	return &Paper{
		Name: "d", Title: "Thousands of custom resource definitions",
		Original: "Discovery of 192 and 368 group versions by kubectl, whose client is throttled, and the memory of an API server with 780 definitions and with 190 large ones of 5,000 properties.",
		Differs: []string{
			"Definitions are scaled. Group versions are as published unless the scale is below 0.25, because their number decides what a throttled client waits.",
			"One definition for each group in discovery: the client asks for group versions, not for kinds.",
			"A server that exists (--kubeconfig) is not started anew: what it needs with the definitions then contains the garbage of installing them.",
			"Clients of today read aggregated discovery with two requests. That is a row of its own.",
		},
		Scale: 0.25, Minutes: "6 minutes",
		steps: stepsD,
		view:  viewD,
	}
}

func stepsD(s size) (all []step) {
	var limits []string
	for _, l := range limitsD() {
		limits = append(limits, l.flag())
	}
	for _, n := range groupVersionsD() {
		groups := strconv.Itoa(groupsD(n, s.scale))
		all = append(all, step{name: discoveryStep(n), args: []string{
			"discovery", "--compare", "--external-etcd", "--crds=" + groups, "--groups=" + groups, "--properties=20", "--limits=" + strings.Join(limits, ","),
			"--rounds=1", "--appear=3", s.flag("duration", time.Second), s.flag("rest", 2*time.Second), "--samples=10",
		}})
	}
	for _, d := range definitionSetsD() {
		crds := scaled(d.crds, s.scale, 4)
		all = append(all, step{name: d.step, args: []string{
			"crd", "--compare", "--external-etcd", "--crds=" + strconv.Itoa(crds), "--groups=" + strconv.Itoa(min(crds, scaled(d.groups, s.scale, 2))),
			"--properties=" + strconv.Itoa(d.properties), s.flag("rest", 10*time.Second), "--samples=20",
		}})
	}
	return all
}

func discoveryStep(groupVersions int) string { return fmt.Sprintf("discovery-%d", groupVersions) }

// groupsD is how many groups are filled in for so many group versions.
func groupsD(groupVersions int, scale float64) int {
	return max(2, scaled(groupVersions, min(1, 4*scale), 1)-builtInGroupVersions)
}

func viewD(r *results) []Section {
	discovery := Section{Title: "Discovery of all group versions by a new client", Note: "A throttled client sends a request for each group version, after its burst at its limit. What it waits for itself no server can shorten."}
	for _, n := range groupVersionsD() {
		d := r.of(discoveryStep(n))
		for _, l := range limitsD() {
			of := func(read func(*clientResult) float64) map[string]float64 {
				return d.clients(true, l, read)
			}
			row := Row{Name: fmt.Sprintf("%d group versions, %s", n, l), Unit: unitSeconds, Published: l.published[n], Values: of(func(c *clientResult) float64 { return c.Millis.P50 / 1000 })}
			if r.scale >= 0.25 {
				row.PublishedValue = l.values[n]
			}
			discovery.add(row)
		}
		discovery.add(Row{Name: fmt.Sprintf("%d group versions, no limit: CPU of the server", n), Unit: unitMillis, Values: d.clients(true, limitD{}, func(c *clientResult) float64 { return c.CPUMillis })})
		discovery.add(Row{Name: fmt.Sprintf("%d group versions, aggregated", n), Unit: unitMillis, Values: d.clients(false, limitD{}, func(c *clientResult) float64 { return c.Millis.P50 })})
		discovery.add(Row{Name: fmt.Sprintf("%d group versions: requests sent, throttled", n), Unit: unitCount, Values: d.clients(true, limitD{}, func(c *clientResult) float64 { return float64(c.Requests) })})
	}
	sections := []Section{discovery}
	for _, set := range definitionSetsD() {
		sections = append(sections, definitionSection(r, set))
	}
	return sections
}

// clients has a value of one client's discovery at each server.
func (d *printout) clients(legacy bool, l limitD, of func(*clientResult) float64) map[string]float64 {
	return d.values(func(s *serverResult) float64 {
		for i := range s.Clients {
			if c := &s.Clients[i]; c.Legacy == legacy && int(c.QPS) == l.qps && c.Burst == l.burst {
				return of(c)
			}
		}
		return 0
	})
}

// definitionSection is what a server needs for a set of definitions.
func definitionSection(r *results, set definitionsD) Section {
	d, n := r.of(set.step), scaled(set.crds, r.scale, 4)
	s := Section{Title: fmt.Sprintf("%d definitions of %d properties", n, set.properties)}
	loaded := Row{Name: "memory with them, after a new start", Unit: unitBytes, Published: set.loaded, PublishedValue: r.comparable(set.loadedBytes), Values: d.values(func(s *serverResult) float64 { return s.Restarted.bytes() })}
	if r.scale != 1 {
		s.Title += fmt.Sprintf(" (published: %d)", set.crds)
	}
	s.add(Row{Name: "memory without any", Unit: unitBytes, Published: set.idle, PublishedValue: set.idleBytes, Values: d.values(func(s *serverResult) float64 { return s.Idle.bytes() })})
	s.add(loaded)
	s.add(Row{Name: "memory for each, after a new start", Unit: unitSize, Values: d.values(func(s *serverResult) float64 {
		if s.Idle == nil || s.Restarted == nil {
			return 0
		}
		return max(0, s.Restarted.bytes()-s.Idle.bytes()) / float64(n)
	})})
	s.add(Row{Name: "memory after OpenAPI was read", Unit: unitBytes, Values: d.values(func(s *serverResult) float64 { return s.Read.bytes() })})
	s.add(Row{Name: "installed until all answer", Unit: unitSeconds, Values: d.values(func(s *serverResult) float64 {
		if s.Install == nil {
			return 0
		}
		return s.Install.AnsweredSeconds
	})})
	s.add(Row{Name: "CPU of installing them", Unit: unitSeconds, Values: d.values(func(s *serverResult) float64 {
		if s.Install == nil {
			return 0
		}
		return s.Install.IdleCPUSeconds
	})})
	s.add(Row{Name: "first read of OpenAPI v2", Unit: unitSeconds, Values: d.values(func(s *serverResult) float64 {
		if s.OpenAPI == nil {
			return 0
		}
		return s.OpenAPI.V2.Seconds
	})})
	return s
}
