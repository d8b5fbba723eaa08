package watch

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/lab/bench/floor"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// watchedObjects is the kind of objects that a workload watches and writes.
type watchedObjects int

const (
	watchAll    watchedObjects = iota // each watcher: all config maps of a namespace
	watchNames                        // each watcher: one config map, by its name
	watchNodes                        // each watcher: the pods of one node
	watchPods                         // each watcher: all pods
	watchShards                       // each watcher: a shard of all pods
	watchFloor                        // each watcher: the event that the floor sends
)

const (
	// allObjects is the number of config maps for watchAll. They are written round-robin.
	allObjects = 20
	// streamsPerConnection is the number of watches that share a connection, unless a workload
	// says otherwise. It is also kube-apiserver's limit.
	streamsPerConnection = 100
)

// eventWorkload is a workload with watchers. Writes at a rate make events. The kind decides whether an
// event goes to all watchers or to one watcher.
type eventWorkload struct {
	name, description string
	group             string // another name that chooses the workload
	byDefault         bool

	kind     watchedObjects
	watchers int
	pods     int     // written round-robin, for watchPods and watchShards
	conns    int     // 0: one for each streamsPerConnection watchers
	rate     float64 // writes per second
	http1    bool
	accept   string // empty: JSON
	encoding string
	stalled  bool // one of the watchers reads nothing
	// recordStreams is set if one goroutine of the floor sends to all connections.
	recordStreams bool
	// floor names the workload that does the same on the floor.
	floor string
	// pair names the workload that this one is compared with. choose adds it.
	pair string
}

// eventWorkloads returns the catalogue, in the order in which workloads run. Workloads come right
// after their pair: what earlier workloads have left in the server then costs both about the same.
func eventWorkloads() []eventWorkload {
	all := eventWorkload{kind: watchAll, watchers: 1000, rate: 20, byDefault: true, group: "all-*"}
	floor := eventWorkload{kind: watchFloor, watchers: 1000, rate: 20, byDefault: true, group: "floor"}
	names := eventWorkload{kind: watchNames, rate: 100, byDefault: true, group: "names"}
	nodes := eventWorkload{kind: watchNodes, rate: 50, byDefault: true, group: "nodes"}
	one := eventWorkload{kind: watchPods, watchers: 1, rate: 50, pods: 200, group: "one"}
	shards := eventWorkload{kind: watchShards, rate: 100, pods: 1000, group: "shards"}
	specs := []eventWorkload{
		all.variant("all-h2-20", "everybody watches 20 config maps, over 20 HTTP/2 connections",
			func(s *eventWorkload) { s.conns, s.floor = 20, "floor-h2-20" }),
		all.variant("gzip", "as all-h2-20, compressed with gzip", func(s *eventWorkload) {
			s.conns = 20
			s.encoding = testbed.EncodingGzip
			s.pair, s.group = "all-h2-20", ""
		}),
		all.variant("all-h2-1000", "as all-h2-20, over 1,000 HTTP/2 connections",
			func(s *eventWorkload) { s.conns, s.floor = 1000, "floor-h2-1000" }),
		all.variant("stalled", "all-h2-1000, but one watcher reads nothing", func(s *eventWorkload) {
			s.conns, s.stalled = 999, true
			s.pair, s.group = "all-h2-1000", ""
		}),
		all.variant("all-h1", "as all-h2-20, over 1,000 HTTP/1.1 connections",
			func(s *eventWorkload) { s.conns, s.http1, s.floor = 1000, true, "floor-h1" }),
	}
	for _, n := range []int{1000, 4000, 8000} {
		specs = append(specs, names.variant(fmt.Sprintf("names-%d", n), "everybody watches one config map by its name",
			func(s *eventWorkload) { s.watchers = n }))
	}
	for _, n := range []int{1000, 5000} {
		specs = append(specs, nodes.variant(fmt.Sprintf("nodes-%d", n), "everybody watches the pods of one node",
			func(s *eventWorkload) { s.watchers = n }))
	}
	specs = append(specs,
		one.variant("one-json", "one client watches all pods", func(*eventWorkload) {}),
		one.variant("one-protobuf", "one-json, in protobuf", func(s *eventWorkload) { s.accept = acceptWatchProtobuf }))
	specs = append(specs, shards.variant("shards-1", "one client watches all pods", func(s *eventWorkload) { s.watchers = 1 }))
	for _, n := range []int{16, 64} {
		specs = append(specs, shards.variant(fmt.Sprintf("shards-%d", n), "each client watches a shard of all pods",
			func(s *eventWorkload) { s.watchers, s.pair = n, "shards-1" }))
	}
	return append(specs,
		floor.variant("floor-h2-20", "Go's HTTP server sends the events of all-h2-20", func(s *eventWorkload) { s.conns = 20 }),
		floor.variant("floor-h2-1000", "Go's HTTP server sends the events of all-h2-1000", func(s *eventWorkload) { s.conns = 1000 }),
		floor.variant("floor-h1", "Go's HTTP server sends the events of all-h1", func(s *eventWorkload) { s.conns, s.http1 = 1000, true }),
		floor.variant("floor-tls", "a goroutine writes the events of all-h1 to the connections, a TLS record each",
			func(s *eventWorkload) { s.conns, s.http1, s.recordStreams = 1000, true, true }))
}

// variant returns a copy of s with another name and description, to which change was applied.
func (s eventWorkload) variant(name, description string, change func(*eventWorkload)) eventWorkload {
	s.name, s.description = name, description
	change(&s)
	return s
}

// scale returns a copy of s with the numbers of watchers and connections multiplied by factor. If s
// writes to a number of pods, scale multiplies that number instead.
func (s eventWorkload) scale(factor float64) eventWorkload {
	times := func(n int) int { return max(1, int(float64(n)*factor+0.5)) }
	if s.pods > 0 {
		s.pods, s.conns = times(s.pods), s.watchers
		return s
	}
	s.watchers = max(times(s.watchers), 2)
	if s.conns > 0 {
		s.conns = times(s.conns)
	} else {
		s.conns = (s.watchers + streamsPerConnection - 1) / streamsPerConnection
	}
	return s
}

// informerWorkload is a number of informers that begin at once, with a watch-list or a LIST.
type informerWorkload struct {
	name      string
	informers int
	byDefault bool
	// firstServerOnly workloads run on the first server alone: a stock server would need more
	// memory than machines have.
	firstServerOnly bool
	// form is the encoding of the stream; set by expandForms.
	form streamForm
	// lists says that the informers start with a LIST in place of a watch-list.
	lists bool
}

const watchListGroup = "watchlist"

// informerWorkloads returns the catalogue of workloads of informers.
func informerWorkloads() []informerWorkload {
	return []informerWorkload{
		{name: "watchlist-16", informers: 16, byDefault: true},
		{name: "watchlist-64", informers: 64, firstServerOnly: true},
		{name: "watchlist-128", informers: 128, firstServerOnly: true},
		{name: "watchlist-512", informers: 512, firstServerOnly: true},
	}
}

// The values of --initial: how informers get the objects that exist.
const (
	initialWatchList = "watch-list"
	initialList      = "list"
)

// informerWorkloadsFor returns a workload for each number of informers and each way to start, which
// is a value of --initial.
func informerWorkloadsFor(counts []int, initial []string) (all []informerWorkload) {
	for _, way := range initial {
		for _, n := range counts {
			s := informerWorkload{name: fmt.Sprintf("%s-%d", watchListGroup, n), informers: n}
			if way == initialList {
				s.name = fmt.Sprintf("list-%d", n)
				s.lists = true
			}
			all = append(all, s)
		}
	}
	return all
}

// choice is what --workloads asks for, in the order of the catalogues.
type choice struct {
	events    []eventWorkload
	floor     []eventWorkload
	informers []informerWorkload
}

// choose returns the workloads that the names of --workloads stand for. Without names it returns
// the defaults.
func choose(names []string) (choice, error) {
	var c choice
	known := map[string]bool{testbed.AllWorkloads: true, testbed.DefaultWorkloads: true, watchListGroup: true}
	chosen := map[string]bool{testbed.DefaultWorkloads: len(names) == 0}
	for _, name := range names {
		chosen[name] = true
	}
	for _, s := range eventWorkloads() {
		known[s.name] = true
		known[s.group] = true
		if s.pair != "" && (chosen[s.name] || chosen[testbed.AllWorkloads] || chosen[testbed.DefaultWorkloads] && s.byDefault) {
			chosen[s.pair] = true
		}
	}
	for _, s := range eventWorkloads() {
		switch chosen := chosen[s.name] || chosen[s.group] || chosen[testbed.AllWorkloads] || chosen[testbed.DefaultWorkloads] && s.byDefault; {
		case chosen && s.kind == watchFloor:
			c.floor = append(c.floor, s)
		case chosen:
			c.events = append(c.events, s)
		}
	}
	for _, s := range informerWorkloads() {
		known[s.name] = true
		if chosen[s.name] || chosen[watchListGroup] || chosen[testbed.AllWorkloads] || chosen[testbed.DefaultWorkloads] && s.byDefault {
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

// needsPods reports whether a workload was chosen that writes to pods.
func (c choice) needsPods() bool { return slices.ContainsFunc(c.events, eventWorkload.writesPods) }

// needsShards reports whether a workload was chosen that watches shards.
func (c choice) needsShards() bool {
	return slices.ContainsFunc(c.events, func(s eventWorkload) bool { return s.kind == watchShards })
}

// writesPods reports whether the workload writes to pods, not to config maps.
func (s eventWorkload) writesPods() bool { return s.kind == watchNodes || s.pods > 0 }

// shardsFlag is the flag, without dashes, with which a server serves shards.
const shardsFlag = "feature-gates=ShardedListAndWatch=true"

// workloadHelp returns the catalogue as text, for --workloads=help.
func workloadHelp() string {
	var b strings.Builder
	line := func(name, description string, byDefault bool) {
		if byDefault {
			description += " (default)"
		}
		fmt.Fprintf(&b, "%-16s %s\n", name, description)
	}
	for _, s := range eventWorkloads() {
		line(s.name, fmt.Sprintf("%s: %d watchers, %g writes/s", s.description, s.watchers, s.rate), s.byDefault)
	}
	for _, s := range informerWorkloads() {
		description := fmt.Sprintf("%d informers start at once with a watch-list of all secrets, and a quarter of them read slowly", s.informers)
		if s.firstServerOnly {
			description += "; not on the stock server"
		}
		line(s.name, description, s.byDefault)
	}
	line("all-*, floor, names, nodes, one, shards, "+watchListGroup, "all workloads whose names start with such a name", false)
	line(testbed.DefaultWorkloads, "the workloads with the mark (default); it can be combined with other names", false)
	line(testbed.AllWorkloads, "all workloads", false)
	return b.String()
}

// uris returns the request of each watcher of s. Watches start after a resource version. pods has
// one pod of each node.
func (s eventWorkload) uris(pods []testbed.PodSample, resourceVersion string) []string {
	uris := make([]string, s.watchers)
	for i := range uris {
		query := url.Values{"watch": {"true"}, "resourceVersion": {resourceVersion}}
		path := configMapsPath
		switch s.kind {
		case watchFloor:
			if uris[i] = floor.WatchPath; s.recordStreams {
				uris[i] = floor.RecordsPath
			}
			continue
		case watchNames:
			query.Set("fieldSelector", "metadata.name="+configMapName(s.configMapSet(), i))
		case watchNodes:
			path = podsPath
			query.Set("fieldSelector", "spec.nodeName="+pods[i].Spec.NodeName)
		case watchPods:
			path = podsPath
		case watchShards:
			path = podsPath
			if s.watchers > 1 {
				query.Set("shardSelector", shardSelector(i, s.watchers))
			}
		}
		uris[i] = path + "?" + query.Encode()
	}
	return uris
}

// shardSelector returns the selector of shard i, of a number of shards of equal size.
func shardSelector(i, shards int) string {
	size := math.MaxUint64/uint64(shards) + 1
	end := "0x10000000000000000"
	if i < shards-1 {
		end = fmt.Sprintf("0x%016x", uint64(i+1)*size)
	}
	return fmt.Sprintf("shardRange(object.metadata.uid, '0x%016x', '%s')", uint64(i)*size, end)
}

// configMapSet returns the set of config maps that s watches. It is a part of their names.
func (s eventWorkload) configMapSet() string {
	if s.kind == watchNames {
		return "name"
	}
	return "all"
}

// objects returns the number of objects that are written round-robin.
func (s eventWorkload) objects() int {
	switch {
	case s.kind == watchAll:
		return allObjects
	case s.pods > 0:
		return s.pods
	}
	return s.watchers
}

// fanOut returns the number of watchers that receive the event of one write and count it.
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
