package model

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/tool/display"
)

// Limit is a bound that a cluster may reach. Its unit depends on the limit; the texts have it.
type Limit struct {
	// Name is what runs short, such as "CPU of the servers".
	Name string `json:"name"`
	// Needed is the amount that the cluster needs, and Available the amount that it has.
	Needed        float64 `json:"needed"`
	Available     float64 `json:"available"`
	NeededText    string  `json:"neededText"`
	AvailableText string  `json:"availableText"`
	// Nodes is the number of nodes at which the limit is reached. 0: at no size.
	Nodes float64 `json:"nodes,omitempty"`
	// Remedy is what raises the limit.
	Remedy string `json:"remedy"`
}

// isExceeded reports whether the cluster needs more than it has.
func (l *Limit) isExceeded() bool { return l.Needed > l.Available }

const (
	// requestTimeoutSeconds is kube-apiserver's --request-timeout. A LIST that takes longer is cut
	// off, and its client sends it again.
	requestTimeoutSeconds = 60.0
	// eventObjectiveSeconds is the objective for the p99 of watch events.
	eventObjectiveSeconds = 1.0
)

// limitList collects limits.
type limitList []Limit

// amountFormat formats an amount of a limit with its unit.
type amountFormat func(v float64) string

func formatCores(v float64) string   { return formatNumber(v) + " processors" }
func formatTraffic(v float64) string { return display.Size(v) + "/s" }
func formatRate(v float64) string    { return formatWhole(v) + "/s" }

// add adds a limit, and sets its texts.
func (l *limitList) add(format amountFormat, limit Limit) {
	limit.NeededText, limit.AvailableText = format(limit.Needed), format(limit.Available)
	*l = append(*l, limit)
}

// addStorm adds the limit of the time that a storm takes.
func (l *limitList) addStorm(u *Usage, remedy string) {
	l.add(display.Seconds, Limit{
		Name: "simultaneous start of all programs", Needed: u.StormSeconds, Available: requestTimeoutSeconds,
		Remedy: remedy + "; programs that start one after another",
	})
}

// limits returns the limits of a setup. If several are reached at the same size, reports name the
// first in this order.
func (m *calculator) limits(c *Cluster, u *Usage, setup Setup) []Limit {
	n := float64(u.Servers.Processes)
	readRemedy := "a tree of replicas, at which nodes read"
	furtherRemedy := "; " + readRemedy
	if setup.Replicas {
		readRemedy = "more servers"
		furtherRemedy = ""
	}
	var l limitList
	l.add(formatRate, Limit{
		Name: "writes of an etcd", Needed: u.Etcd.MaxWrites, Available: m.reader.value("etcd.writesPerSecond"),
		Remedy: c.etcdRemedy("longer intervals of leases, several clusters, or another store"),
	})
	l.add(formatBytes, Limit{
		Name: "database of an etcd", Needed: u.Etcd.MaxBytes, Available: m.reader.value("etcd.databaseBytes"),
		Remedy: c.etcdRemedy("fewer or smaller objects, several clusters, or another store"),
	})
	l.add(formatCores, Limit{
		Name: "CPU of the servers", Needed: u.Servers.CPU, Available: n * c.Cores,
		Remedy: "more servers or processors, longer intervals of leases" + furtherRemedy,
	})
	l.add(formatBytes, Limit{
		Name: "memory of a server", Needed: u.Servers.StormBytes, Available: c.MemoryBytes,
		Remedy: "more memory, fewer or smaller objects" + furtherRemedy,
	})
	l.add(formatTraffic, Limit{
		Name: "network of a server", Needed: u.Servers.SentBytes / n, Available: c.networkBytes(), Remedy: readRemedy,
	})
	if setup.Replicas {
		m.addTreeLimits(c, u, &l)
		return l
	}
	l.add(display.Seconds, Limit{
		Name: "fan-out of an event at a server", Needed: u.Servers.EventSeconds, Available: eventObjectiveSeconds, Remedy: readRemedy,
	})
	l.addStorm(u, readRemedy)
	return l
}

// addTreeLimits adds the limits of replicas.
func (m *calculator) addTreeLimits(c *Cluster, u *Usage, l *limitList) {
	if c.tree == nil { // --tree=auto
		m.addAutoTreeLimits(c, u, l)
		return
	}
	const remedy = "more replicas in --tree, or --tree=auto"
	for depth := range u.Tiers {
		t, suffix := &u.Tiers[depth], fmt.Sprintf(" of a replica at depth %d", depth+1)
		l.add(formatCores, Limit{Name: "CPU" + suffix, Needed: t.cpuPerProcess(), Available: c.Cores, Remedy: remedy})
		l.add(formatBytes, Limit{Name: "memory" + suffix, Needed: t.StormBytes, Available: c.MemoryBytes, Remedy: remedy})
		l.add(formatTraffic, Limit{Name: "network" + suffix, Needed: t.sentPerProcess(), Available: c.networkBytes(), Remedy: remedy})
	}
	l.add(display.Seconds, Limit{
		Name: "fan-out of an event at a replica", Needed: u.readers.EventSeconds, Available: eventObjectiveSeconds, Remedy: remedy,
	})
	l.addStorm(u, remedy)
}

// addAutoTreeLimits adds the limits of a tree whose replicas the model counts: the limits that more
// replicas do not raise.
func (m *calculator) addAutoTreeLimits(c *Cluster, u *Usage, l *limitList) {
	feedingCPU := 0.0 // of the busiest replica that feeds others
	for depth := range len(u.Tiers) - 1 {
		feedingCPU = max(feedingCPU, u.Tiers[depth].cpuPerProcess())
	}
	const fewerResources = "fewer resources that all nodes read"
	l.add(formatBytes, Limit{
		Name: "memory of a replica", Needed: u.readers.fixedBytes, Available: sizedMemory * c.MemoryBytes,
		Remedy: "more memory; replicas that follow only some resources; " + fewerResources,
	})
	l.add(formatCores, Limit{
		Name: "feed of a replica", Needed: u.readers.fixedCPU, Available: sizedCPU * c.Cores,
		Remedy: "replicas that follow only some resources; " + fewerResources,
	})
	l.add(formatCores, Limit{
		Name: "CPU of a feeding replica", Needed: feedingCPU, Available: c.Cores,
		Remedy: fewerResources + "; kubelets that write to the servers themselves",
	})
	l.add(formatWhole, Limit{
		Name: "number of replicas", Needed: float64(u.readers.Processes), Available: maxReplicas, Remedy: fewerResources,
	})
}

// etcdRemedy returns what relieves an etcd: a separate etcd for further resources, and then other.
func (c *Cluster) etcdRemedy(other string) string {
	switch {
	case len(c.OwnEtcd) == 0:
		return "a separate etcd for leases and events (--own-etcd=leases,events); " + other
	case len(c.OwnEtcd) == 1:
		return "a separate etcd for leases and another one for events; " + other
	}
	return other
}

// The search for the size at which a limit is exceeded.
const (
	minNodes      = 10.0
	searchSteps   = 20
	nodesDigits   = 2 // significant digits of a result
	ratioOfBounds = maxNodes / minNodes
)

// breakPoint returns the number of nodes from which a limit is exceeded, while all else stays as it
// is. If a size exceeds the limit, all larger sizes must exceed it, too. breakPoint returns
// minNodes if that size exceeds the limit, and 0 if maxNodes do not.
func breakPoint(exceeded func(nodes float64) bool) float64 {
	switch {
	case exceeded(minNodes):
		return minNodes
	case !exceeded(maxNodes):
		return 0
	}
	low, high := 0.0, 1.0 // exponents of ratioOfBounds
	nodes := func(exponent float64) float64 { return minNodes * math.Pow(ratioOfBounds, exponent) }
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

// formatBytes returns a size such as 64 GB.
func formatBytes(v float64) string { return display.Size(v) }

// formatNumber returns a number with three digits, or with a unit if it is large.
func formatNumber(v float64) string {
	if v >= 100 {
		return display.Count(v)
	}
	return fmt.Sprintf("%.3g", v)
}
