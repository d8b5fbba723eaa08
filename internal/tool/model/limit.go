package model

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/tool/display"
)

// Limit is a bound that a cluster may reach.
type Limit struct {
	What string `json:"what"`
	// Value is the amount that the cluster needs, and Most the amount that it has.
	Value float64 `json:"value"`
	Most  float64 `json:"most"`
	// Text is Value and Most as text, and There is Most as text.
	Text  string `json:"text"`
	There string `json:"there"`
	// Nodes is the number of nodes at which the limit is reached. 0: at no size.
	Nodes float64 `json:"nodes,omitempty"`
	// Helps says what raises the limit.
	Helps string `json:"helps"`
}

// isExceeded reports whether the cluster needs more than it has.
func (l *Limit) isExceeded() bool { return l.Value > l.Most }

const (
	// requestTimeout is kube-apiserver's --request-timeout, in seconds. A LIST that takes longer
	// is cut off, and comes again.
	requestTimeout = 60.0
	// eventObjective is the objective for the p99 of watch events, in seconds.
	eventObjective = 1.0
)

// limitList collects limits.
type limitList []Limit

// amount formats the amounts of a limit. unit follows the last number.
type amount struct {
	format func(v float64) string
	unit   string
}

func coresAmount() amount   { return amount{formatNumber, " processors"} }
func bytesAmount() amount   { return amount{func(v float64) string { return display.Size(v) }, ""} }
func trafficAmount() amount { return amount{func(v float64) string { return display.Size(v) }, "/s"} }
func secondsAmount() amount { return amount{display.Seconds, ""} }
func countAmount() amount   { return amount{formatWhole, ""} }
func rateAmount() amount    { return amount{formatWhole, "/s"} }

// addLimit adds a limit. The caller sets Helps of the result before it adds another one.
func (l *limitList) addLimit(what string, value, most float64, a amount) *Limit {
	there := a.format(most) + a.unit
	*l = append(*l, Limit{What: what, Value: value, Most: most, Text: a.format(value) + " of " + there, There: there})
	return &(*l)[len(*l)-1]
}

// limits returns the limits of a setup. The first one is named first if several are reached at the
// same size.
func (m *calculator) limits(c *Cluster, u *Usage, setup Setup) []Limit {
	n := float64(u.Servers.Processes)
	readHelp := "a tree of replicas, at which nodes read"
	alsoHelps := "; " + readHelp
	if setup.Replicas {
		readHelp = "more servers"
		alsoHelps = ""
	}
	var all limitList
	all.addLimit("writes of an etcd", u.Etcd.MostWrites, m.reader.value("etcd.writesPerSecond"), rateAmount()).Helps =
		c.etcdHelp("longer intervals of leases, several clusters, or another store")
	all.addLimit("database of an etcd", u.Etcd.MostBytes, m.reader.value("etcd.databaseBytes"), bytesAmount()).Helps =
		c.etcdHelp("fewer or smaller objects, several clusters, or another store")
	all.addLimit("CPU of the servers", u.Servers.CPU, n*c.Cores, coresAmount()).Helps = "more servers or processors, longer intervals of leases" + alsoHelps
	all.addLimit("memory of a server", u.Servers.BegunBytes, c.MemoryBytes, bytesAmount()).Helps = "more memory, fewer or smaller objects" + alsoHelps
	all.addLimit("network of a server", u.Servers.SentBytes/n, c.networkBytes(), trafficAmount()).Helps = readHelp
	if setup.Replicas {
		m.addTreeLimits(c, u, &all)
		return all
	}
	all.addLimit("fan-out of an event at a server", u.Servers.EventSeconds, eventObjective, secondsAmount()).Helps = readHelp
	all.addLimit("simultaneous start of all programs", u.BeginSeconds, requestTimeout, secondsAmount()).Helps = readHelp + "; programs that start one after another"
	return all
}

// addTreeLimits adds the limits of replicas. If the model chooses their number (--tree=auto), it
// adds only the limits that more replicas do not raise.
func (m *calculator) addTreeLimits(c *Cluster, u *Usage, all *limitList) {
	last := u.readers
	if c.tree == nil {
		feeding := 0.0
		for depth := range len(u.Tiers) - 1 {
			feeding = max(feeding, u.Tiers[depth].cpuPerProcess())
		}
		const less = "fewer resources that all nodes read"
		all.addLimit("memory of a replica", last.fixedBytes, sizedMemory*c.MemoryBytes, bytesAmount()).Helps =
			"more memory; replicas that follow only some resources; " + less
		all.addLimit("feed of a replica", last.fixedCPU, sizedCPU*c.Cores, coresAmount()).Helps = "replicas that follow only some resources; " + less
		all.addLimit("CPU of a feeding replica", feeding, c.Cores, coresAmount()).Helps = less + "; kubelets that write to the servers themselves"
		all.addLimit("number of replicas", float64(last.Processes), maxReplicas, countAmount()).Helps = less
		return
	}
	const more = "more replicas in --tree, or --tree=auto"
	for depth := range u.Tiers {
		t, at := &u.Tiers[depth], fmt.Sprintf(" of a replica at depth %d", depth+1)
		all.addLimit("CPU"+at, t.cpuPerProcess(), c.Cores, coresAmount()).Helps = more
		all.addLimit("memory"+at, t.BegunBytes, c.MemoryBytes, bytesAmount()).Helps = more
		all.addLimit("network"+at, t.SentBytes/float64(t.Processes), c.networkBytes(), trafficAmount()).Helps = more
	}
	all.addLimit("fan-out of an event at a replica", last.EventSeconds, eventObjective, secondsAmount()).Helps = more
	all.addLimit("simultaneous start of all programs", u.BeginSeconds, requestTimeout, secondsAmount()).Helps = more + "; programs that start one after another"
}

// etcdHelp returns what helps an etcd: a separate etcd for further resources, and then other.
func (c *Cluster) etcdHelp(other string) string {
	switch {
	case len(c.OwnEtcd) == 0:
		return "a separate etcd for leases and events (--own-etcd=leases,events); " + other
	case len(c.OwnEtcd) == 1:
		return "a separate etcd for leases and another one for events; " + other
	}
	return other
}

// Bounds of the search for the size at which something breaks.
const (
	fewestNodes   = 10.0
	mostNodes     = float64(maxNodes)
	searchSteps   = 20
	nodesDigits   = 2 // of a result that mean something
	ratioOfBounds = mostNodes / fewestNodes
)

// breakPoint returns the number of nodes from which a limit is exceeded, while all else stays as it
// is. It returns 0 if no size exceeds the limit.
func breakPoint(exceeded func(nodes float64) bool) float64 {
	switch {
	case exceeded(fewestNodes):
		return fewestNodes
	case !exceeded(mostNodes):
		return 0
	}
	low, high := 0.0, 1.0 // exponents of ratioOfBounds
	nodes := func(exponent float64) float64 { return fewestNodes * math.Pow(ratioOfBounds, exponent) }
	for range searchSteps {
		middle := (low + high) / 2
		if exceeded(nodes(middle)) {
			high = middle
		} else {
			low = middle
		}
	}
	return nodes(high)
}

// roundNodes rounds a number of nodes to nodesDigits digits.
func roundNodes(v float64) float64 {
	if v <= 0 {
		return 0
	}
	scale := math.Pow(10, math.Floor(math.Log10(v))-nodesDigits+1)
	return math.Round(v/scale) * scale
}

// formatNumber returns a number with three digits, or with a unit if it is large.
func formatNumber(v float64) string {
	if v >= 100 {
		return display.Count(v)
	}
	return fmt.Sprintf("%.3g", v)
}
