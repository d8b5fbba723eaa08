package watch

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/bench/floor"
	"github.com/millrace/millrace/internal/bench/testbed"
)

// watchedObjects says what is watched and written.
type watchedObjects int

const (
	watchAll   watchedObjects = iota // all config maps of a namespace, by everybody
	watchNames                       // one config map each
	watchNodes                       // the pods of one node each
	watchFloor                       // what the floor sends
)

const (
	// allObjects are written in turn when everybody watches all.
	allObjects = 20
	// streamsPerConnection is how many watches share a connection where a workload does
	// not say: kube-apiserver lets a connection have as many.
	streamsPerConnection = 100
)

// eventWorkload is one workload of "bench watch": watchers to which the same writes
// make events.
type eventWorkload struct {
	name, about string
	group       string // also chooses it
	byDefault   bool

	kind     watchedObjects
	watchers int
	conns    int // 0: one for each linkStreams watchers
	rate     float64
	http1    bool
	encoding string
	stalled  bool // one of the watchers reads nothing
	// records says that the floor sends to each connection by itself.
	records bool
	// floor is the workload that does the same on the floor; pair the one on the
	// same server that this one is compared with and therefore chosen with it.
	floor, pair string
}

// eventWorkloads is the catalogue, in the order in which it is run. One that is compared with
// another comes right behind it: what others leave behind costs both as much.
func eventWorkloads() []eventWorkload {
	all := eventWorkload{kind: watchAll, watchers: 1000, rate: 20, byDefault: true, group: "all-*"}
	floor := eventWorkload{kind: watchFloor, watchers: 1000, rate: 20, byDefault: true, group: "floor"}
	names := eventWorkload{kind: watchNames, rate: 100, byDefault: true, group: "names"}
	nodes := eventWorkload{kind: watchNodes, rate: 50, byDefault: true, group: "nodes"}
	specs := []eventWorkload{
		all.with("all-h2-20", "everybody watches 20 config maps, over 20 HTTP/2 connections", func(s *eventWorkload) { s.conns, s.floor = 20, "floor-h2-20" }),
		all.with("gzip", "as all-h2-20, with Accept-Encoding: gzip", func(s *eventWorkload) {
			s.conns, s.encoding, s.pair, s.group = 20, testbed.EncodingGzip, "all-h2-20", ""
		}),
		all.with("all-h2-1000", "as all-h2-20, over 1,000 HTTP/2 connections", func(s *eventWorkload) { s.conns, s.floor = 1000, "floor-h2-1000" }),
		all.with("stalled", "as all-h2-1000, but one of them reads nothing", func(s *eventWorkload) { s.conns, s.stalled, s.pair, s.group = 999, true, "all-h2-1000", "" }),
		all.with("all-h1", "as all-h2-20, over 1,000 HTTP/1.1 connections", func(s *eventWorkload) { s.conns, s.http1, s.floor = 1000, true, "floor-h1" }),
	}
	for _, n := range []int{1000, 4000, 8000} {
		specs = append(specs, names.with(fmt.Sprintf("names-%d", n), "everybody watches one config map by its name", func(s *eventWorkload) { s.watchers = n }))
	}
	for _, n := range []int{1000, 5000} {
		specs = append(specs, nodes.with(fmt.Sprintf("nodes-%d", n), "everybody watches the pods of one node", func(s *eventWorkload) { s.watchers = n }))
	}
	return append(specs,
		floor.with("floor-h2-20", "Go's HTTP server sends the events of all-h2-20", func(s *eventWorkload) { s.conns = 20 }),
		floor.with("floor-h2-1000", "Go's HTTP server sends the events of all-h2-1000", func(s *eventWorkload) { s.conns = 1000 }),
		floor.with("floor-h1", "Go's HTTP server sends the events of all-h1", func(s *eventWorkload) { s.conns, s.http1 = 1000, true }),
		floor.with("floor-tls", "a goroutine writes the events of all-h1 to the connections, a TLS record each", func(s *eventWorkload) { s.conns, s.http1, s.records = 1000, true, true }))
}

// with names a variant.
func (s eventWorkload) with(name, about string, change func(*eventWorkload)) eventWorkload {
	s.name, s.about = name, about
	change(&s)
	return s
}

// scaled has another number of watchers and of connections.
func (s eventWorkload) scaled(by float64) eventWorkload {
	times := func(n int) int { return max(1, int(float64(n)*by+0.5)) }
	s.watchers = max(times(s.watchers), 2)
	if s.conns > 0 {
		s.conns = times(s.conns)
	} else {
		s.conns = (s.watchers + streamsPerConnection - 1) / streamsPerConnection
	}
	return s
}

// informerWorkload is a workload of watch-list informers.
type informerWorkload struct {
	name      string
	informers int
	byDefault bool
	// single ones are run on the first server only: others would need more
	// memory than machines have.
	single bool
	// form is how they ask; --forms multiplies the workloads.
	form informerForm
}

const watchListGroup = "watchlist"

func informerWorkloads() []informerWorkload {
	return []informerWorkload{
		{name: "watchlist-16", informers: 16, byDefault: true},
		{name: "watchlist-64", informers: 64, single: true},
		{name: "watchlist-128", informers: 128, single: true},
		{name: "watchlist-512", informers: 512, single: true},
	}
}

// choice is what --workloads asks for, in the catalogue's order.
type choice struct {
	events    []eventWorkload
	floor     []eventWorkload
	informers []informerWorkload
}

// choose resolves the names of --workloads; no names means the default
// ones.
func choose(names []string) (choice, error) {
	var c choice
	known := map[string]bool{testbed.AllWorkloads: true, testbed.DefaultWorkloads: true, watchListGroup: true}
	wanted := map[string]bool{testbed.DefaultWorkloads: len(names) == 0}
	for _, name := range names {
		wanted[name] = true
	}
	for _, s := range eventWorkloads() {
		known[s.name], known[s.group] = true, true
		if s.pair != "" && (wanted[s.name] || wanted[testbed.AllWorkloads] || wanted[testbed.DefaultWorkloads] && s.byDefault) {
			wanted[s.pair] = true
		}
	}
	for _, s := range eventWorkloads() {
		switch chosen := wanted[s.name] || wanted[s.group] || wanted[testbed.AllWorkloads] || wanted[testbed.DefaultWorkloads] && s.byDefault; {
		case chosen && s.kind == watchFloor:
			c.floor = append(c.floor, s)
		case chosen:
			c.events = append(c.events, s)
		}
	}
	for _, s := range informerWorkloads() {
		known[s.name] = true
		if wanted[s.name] || wanted[watchListGroup] || wanted[testbed.AllWorkloads] || wanted[testbed.DefaultWorkloads] && s.byDefault {
			c.informers = append(c.informers, s)
		}
	}
	for _, name := range names {
		if !known[name] || name == "" {
			return choice{}, fmt.Errorf("no workload %q: --workloads=help lists them", name)
		}
	}
	return c, nil
}

// needs reports whether a kind of events was chosen.
func (c choice) needs(kind watchedObjects) bool {
	return slices.ContainsFunc(c.events, func(s eventWorkload) bool { return s.kind == kind })
}

// workloadHelp lists the catalogue.
func workloadHelp() string {
	var b strings.Builder
	line := func(name, about string, byDefault bool) {
		if byDefault {
			about += " (default)"
		}
		fmt.Fprintf(&b, "%-16s %s\n", name, about)
	}
	for _, s := range eventWorkloads() {
		line(s.name, fmt.Sprintf("%s: %d watchers, %g writes/s", s.about, s.watchers, s.rate), s.byDefault)
	}
	for _, s := range informerWorkloads() {
		about := fmt.Sprintf("%d informers at once begin with a watch-list of all secrets, a quarter of them read slowly", s.informers)
		if s.single {
			about += "; not on the stock server"
		}
		line(s.name, about, s.byDefault)
	}
	line("all-*, floor, names, nodes, "+watchListGroup, "all whose names begin so", false)
	line(testbed.DefaultWorkloads, "what is marked so; it can be combined with others", false)
	line(testbed.AllWorkloads, "all of these", false)
	return b.String()
}

// uris are what a spec's watchers ask for, from a resource version on.
func (s eventWorkload) uris(pods []testbed.PodSample, resourceVersion string) []string {
	uris := make([]string, s.watchers)
	for i := range uris {
		query := url.Values{"watch": {"true"}, "resourceVersion": {resourceVersion}}
		path := configMapsPath
		switch s.kind {
		case watchFloor:
			if uris[i] = floor.WatchPath; s.records {
				uris[i] = floor.RecordsPath
			}
			continue
		case watchNames:
			query.Set("fieldSelector", "metadata.name="+configMapName(s.set(), i))
		case watchNodes:
			path = "/api/v1/pods"
			query.Set("fieldSelector", "spec.nodeName="+pods[i].Spec.NodeName)
		}
		uris[i] = path + "?" + query.Encode()
	}
	return uris
}

// set names the config maps of a kind.
func (s eventWorkload) set() string {
	if s.kind == watchNames {
		return "name"
	}
	return "all"
}

// objects is how many are written in turn.
func (s eventWorkload) objects() int {
	if s.kind == watchAll {
		return allObjects
	}
	return s.watchers
}

// fanOut is how many watchers get an event of one write.
func (s eventWorkload) fanOut() int {
	switch {
	case s.kind != watchAll && s.kind != watchFloor:
		return 1
	case s.stalled:
		return s.watchers - 1
	default:
		return s.watchers
	}
}
