package model

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/display"
)

// Limit is a bound that a cluster may reach.
type Limit struct {
	What string `json:"what"`
	// Value is what the cluster needs, and Most what there is.
	Value float64 `json:"value"`
	Most  float64 `json:"most"`
	// Text is both, for people.
	Text string `json:"text"`
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

// limits are those of a setup. The order is that in which they are told if several are
// reached at the same size.
func (m *calculator) limits(c *Cluster, u *Usage, setup Setup) []Limit {
	perServer := float64(u.Servers.Processes)
	cores := func(v, most float64) string { return fmt.Sprintf("%s of %s processors", number(v), number(most)) }
	bytes := func(v, most float64) string { return fmt.Sprintf("%s of %s", display.Size(v), display.Size(most)) }
	rate := func(v, most float64) string { return fmt.Sprintf("%s/s of %s/s", display.Size(v), display.Size(most)) }
	seconds := func(v, most float64) string {
		return fmt.Sprintf("%s of %s", display.Seconds(v), display.Seconds(most))
	}
	var all []Limit
	add := func(what string, value, most float64, text func(v, most float64) string, helps string) {
		all = append(all, Limit{What: what, Value: value, Most: most, Text: text(value, most), Helps: helps})
	}
	reads, readers := "a tree of replicas, at which nodes read", "; a tree of replicas, at which nodes read"
	if setup.Replicas {
		reads, readers = "more servers", ""
	}
	writes := m.reader.value("etcd.writesPerSecond")
	add("writes of an etcd", u.Etcd.MostWrites, writes, func(v, most float64) string {
		return fmt.Sprintf("%s of %s/s", people(v), people(most))
	}, c.etcdHelp("longer intervals of leases, several clusters, or another store"))
	add("database of an etcd", u.Etcd.MostBytes, m.reader.value("etcd.databaseBytes"), bytes, c.etcdHelp("fewer or smaller objects, several clusters, or another store"))
	add("CPU of the servers", u.Servers.CPU, perServer*c.Cores, cores, "more servers or processors, longer intervals of leases"+readers)
	add("memory of a server", u.Servers.BegunBytes, c.MemoryBytes, bytes, "more memory, fewer or smaller objects"+readers)
	add("network of a server", u.Servers.SentBytes/perServer, c.networkBytes(), rate, reads)
	if !setup.Replicas {
		add("fan-out of an event at a server", u.Servers.EventSeconds, eventObjective, seconds, reads)
		add("begin of all programs at once", u.BeginSeconds, requestTimeout, seconds, reads+"; programs that begin one after another")
		return all
	}
	all = append(all, m.treeLimits(c, u, bytes, cores, rate)...)
	return all
}

// treeLimits are those that more replicas do not move.
func (m *calculator) treeLimits(c *Cluster, u *Usage, bytes, cores, rate func(v, most float64) string) []Limit {
	leaf := u.readers
	var all []Limit
	add := func(what string, value, most float64, text func(v, most float64) string, helps string) {
		all = append(all, Limit{What: what, Value: value, Most: most, Text: text(value, most), Helps: helps})
	}
	if c.tree == nil {
		add("memory of a replica", leaf.fixedBytes, sizedMemory*c.MemoryBytes, bytes, "more memory; replicas that follow only some resources; fewer resources that all nodes read")
		add("feed of a replica", leaf.fixedCPU, sizedCPU*c.Cores, cores, "replicas that follow only some resources; fewer resources that all nodes read")
		feeding := 0.0
		for depth := range len(u.Tiers) - 1 {
			feeding = math.Max(feeding, u.Tiers[depth].each())
		}
		add("CPU of a feeding replica", feeding, c.Cores, cores, "fewer resources that all nodes read; kubelets that write to the servers themselves")
		add("number of replicas", float64(leaf.Processes), maxReplicas, func(v, most float64) string {
			return fmt.Sprintf("%s of %s", people(v), people(most))
		}, "agents that read less: only what concerns their own node")
		return all
	}
	for depth := range u.Tiers {
		t := &u.Tiers[depth]
		n := float64(t.Processes)
		at := fmt.Sprintf(" of a replica at depth %d", depth+1)
		more := "more replicas in --tree, or --tree=auto"
		add("CPU"+at, t.each(), c.Cores, cores, more)
		add("memory"+at, t.BegunBytes, c.MemoryBytes, bytes, more)
		add("network"+at, t.SentBytes/n, c.networkBytes(), rate, more)
	}
	add("fan-out of an event at a replica", leaf.EventSeconds, eventObjective, func(v, most float64) string {
		return fmt.Sprintf("%s of %s", display.Seconds(v), display.Seconds(most))
	}, "more replicas in --tree, or --tree=auto")
	return all
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
	searchSteps   = 40
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

// number formats a number of processors.
func number(v float64) string {
	if v >= 100 {
		return display.Count(v)
	}
	return fmt.Sprintf("%.3g", v)
}
