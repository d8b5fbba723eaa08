package model

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/tool/display"
)

// Limit is a bound that a cluster may reach.
type Limit struct {
	What string `json:"what"`
	// Value is what the cluster needs, and Most what there is.
	Value float64 `json:"value"`
	Most  float64 `json:"most"`
	// Text is both, for people, and There is what there is.
	Text  string `json:"text"`
	There string `json:"there"`
	// Nodes is the number of nodes at which it is reached. 0: at no size.
	Nodes float64 `json:"nodes,omitempty"`
	// Helps is what moves it.
	Helps string `json:"helps"`
}

// exceeded says whether the cluster needs more than there is.
func (l *Limit) exceeded() bool { return l.Value > l.Most }

const (
	// requestTimeout is kube-apiserver's --request-timeout: a LIST that takes longer is cut
	// off, and comes again.
	requestTimeout = 60.0
	// eventObjective is the p99 of a watch event that is good, in seconds.
	eventObjective = 1.0
)

type limitList []Limit

// amount formats what a limit is of. unit comes behind the last number.
type amount struct {
	format func(v float64) string
	unit   string
}

func coresAmount() amount   { return amount{number, " processors"} }
func bytesAmount() amount   { return amount{func(v float64) string { return display.Size(v) }, ""} }
func trafficAmount() amount { return amount{func(v float64) string { return display.Size(v) }, "/s"} }
func secondsAmount() amount { return amount{display.Seconds, ""} }
func countAmount() amount   { return amount{people, ""} }
func rateAmount() amount    { return amount{people, "/s"} }

func (l *limitList) add(what string, value, most float64, a amount) *Limit {
	there := a.format(most) + a.unit
	*l = append(*l, Limit{What: what, Value: value, Most: most, Text: a.format(value) + " of " + there, There: there})
	return &(*l)[len(*l)-1]
}

// limits are those of a setup. The order is that in which they are told if several are
// reached at the same size.
func (m *calculator) limits(c *Cluster, u *Usage, setup Setup) []Limit {
	n := float64(u.Servers.Processes)
	reads, also := "a tree of replicas, at which nodes read", "; a tree of replicas, at which nodes read"
	if setup.Replicas {
		reads, also = "more servers", ""
	}
	var all limitList
	all.add("writes of an etcd", u.Etcd.MostWrites, m.reader.value("etcd.writesPerSecond"), rateAmount()).Helps =
		c.etcdHelp("longer intervals of leases, several clusters, or another store")
	all.add("database of an etcd", u.Etcd.MostBytes, m.reader.value("etcd.databaseBytes"), bytesAmount()).Helps =
		c.etcdHelp("fewer or smaller objects, several clusters, or another store")
	all.add("CPU of the servers", u.Servers.CPU, n*c.Cores, coresAmount()).Helps = "more servers or processors, longer intervals of leases" + also
	all.add("memory of a server", u.Servers.BegunBytes, c.MemoryBytes, bytesAmount()).Helps = "more memory, fewer or smaller objects" + also
	all.add("network of a server", u.Servers.SentBytes/n, c.networkBytes(), trafficAmount()).Helps = reads
	if setup.Replicas {
		m.addTreeLimits(c, u, &all)
		return all
	}
	all.add("fan-out of an event at a server", u.Servers.EventSeconds, eventObjective, secondsAmount()).Helps = reads
	all.add("begin of all programs at once", u.BeginSeconds, requestTimeout, secondsAmount()).Helps = reads + "; programs that begin one after another"
	return all
}

// addTreeLimits adds those of replicas. Of replicas that are counted they are those that more
// replicas do not move.
func (m *calculator) addTreeLimits(c *Cluster, u *Usage, all *limitList) {
	last := u.readers
	if c.tree == nil {
		feeding := 0.0
		for depth := range len(u.Tiers) - 1 {
			feeding = max(feeding, u.Tiers[depth].each())
		}
		const less = "fewer resources that all nodes read"
		all.add("memory of a replica", last.fixedBytes, sizedMemory*c.MemoryBytes, bytesAmount()).Helps = "more memory; replicas that follow only some resources; " + less
		all.add("feed of a replica", last.fixedCPU, sizedCPU*c.Cores, coresAmount()).Helps = "replicas that follow only some resources; " + less
		all.add("CPU of a feeding replica", feeding, c.Cores, coresAmount()).Helps = less + "; kubelets that write to the servers themselves"
		all.add("number of replicas", float64(last.Processes), maxReplicas, countAmount()).Helps = less
		return
	}
	const more = "more replicas in --tree, or --tree=auto"
	for depth := range u.Tiers {
		t, at := &u.Tiers[depth], fmt.Sprintf(" of a replica at depth %d", depth+1)
		all.add("CPU"+at, t.each(), c.Cores, coresAmount()).Helps = more
		all.add("memory"+at, t.BegunBytes, c.MemoryBytes, bytesAmount()).Helps = more
		all.add("network"+at, t.SentBytes/float64(t.Processes), c.networkBytes(), trafficAmount()).Helps = more
	}
	all.add("fan-out of an event at a replica", last.EventSeconds, eventObjective, secondsAmount()).Helps = more
	all.add("begin of all programs at once", u.BeginSeconds, requestTimeout, secondsAmount()).Helps = more + "; programs that begin one after another"
}

// etcdHelp says what helps an etcd, of what is not done yet.
func (c *Cluster) etcdHelp(last string) string {
	switch {
	case len(c.OwnEtcd) == 0:
		return "an etcd of their own for leases and events (--own-etcd=leases,events); " + last
	case len(c.OwnEtcd) == 1:
		return "an etcd of their own for leases and for events; " + last
	}
	return last
}

// Bounds of the search for the size at which something breaks.
const (
	fewestNodes   = 10.0
	mostNodes     = float64(maxNodes)
	searchSteps   = 20
	nodesShown    = 2 // digits
	ratioOfBounds = mostNodes / fewestNodes
)

// breakPoint is the number of nodes at which a limit is reached, with all else as it is. It is
// 0 if that is at no size.
func breakPoint(exceeded func(nodes float64) bool) float64 {
	switch {
	case exceeded(fewestNodes):
		return fewestNodes
	case !exceeded(mostNodes):
		return 0
	}
	low, high := 0.0, 1.0 // exponents of ratioOfBounds
	nodes := func(at float64) float64 { return fewestNodes * math.Pow(ratioOfBounds, at) }
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

// roundNodes rounds a number of nodes to the digits that mean something.
func roundNodes(v float64) float64 {
	if v <= 0 {
		return 0
	}
	scale := math.Pow(10, math.Floor(math.Log10(v))-nodesShown+1)
	return math.Round(v/scale) * scale
}

func number(v float64) string {
	if v >= 100 {
		return display.Count(v)
	}
	return fmt.Sprintf("%.3g", v)
}
