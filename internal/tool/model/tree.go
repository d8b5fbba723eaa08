package model

import (
	"maps"
	"math"
	"slices"
)

// feed is the sum of the resources that a replica follows.
type feed struct {
	perSecond   float64 // events
	bytes       float64 // of events per second, as JSON
	resources   float64
	objectBytes float64 // of all objects, as JSON
}

// feedOf returns the feed of replicas: they follow all resources that programs read at them.
func (c *Cluster) feedOf(l *load) (f feed) {
	resources := c.resources()
	for _, name := range slices.Sorted(maps.Keys(l.resources)) {
		r, known := resources[name]
		if !known {
			r = c.unknownResource()
		}
		f.perSecond += r.changes
		f.bytes += r.changes * r.bytes
		f.objectBytes += r.objects * r.bytes
		f.resources++
	}
	return f
}

// addTree adds the tiers of replicas, and what they cost the servers.
func (m *calculator) addTree(c *Cluster, l *load, w *writeLoad, u *Usage) {
	f := c.feedOf(l)
	counts := c.tree
	if counts == nil {
		counts = m.sizeTree(c, l, w, f)
	}
	u.Tiers = make([]ProcessUsage, 0, len(counts)) // append must not move them: above points to one
	above, aboveKind := &u.Servers, u.Servers.prices
	for depth, n := range counts {
		tier := m.replicaUsage(c, w, f, n)
		if depth+1 == len(counts) {
			// The replicas of the last tier answer the GETs of kubelets.
			tier.CPU += w.gets * m.replica.request
			u.Servers.CPU -= w.gets * (u.Servers.prices.request + u.Servers.prices.etcdGet)
		}
		children := float64(n)
		bytes := f.bytes / max(1, f.perSecond) * m.feedSent[aboveKind.name]
		above.CPU += children * f.perSecond * aboveKind.eventSeconds(bytes)
		above.SentBytes += children * f.bytes * m.feedSent[aboveKind.name]
		above.Watches += children * f.resources
		above.Connections += children
		each := children / float64(above.Processes)
		above.MemoryBytes += each * (f.resources*aboveKind.watch + aboveKind.connection)
		above.StormBytes += each * (f.resources*(aboveKind.watch+aboveKind.stormWatch) + aboveKind.connection)
		u.Tiers = append(u.Tiers, tier)
		above, aboveKind = &u.Tiers[depth], m.replica
	}
}

// replicaUsage returns the usage of n replicas without their readers.
func (m *calculator) replicaUsage(c *Cluster, w *writeLoad, f feed, n int) ProcessUsage {
	p := m.replica
	u := ProcessUsage{Processes: n, prices: p}
	u.fixedCPU = p.idle + p.cpuAtRate(p.takeQuiet, p.takeBusy, f.perSecond)
	u.CPU = float64(n)*u.fixedCPU + w.kubelets*p.passOn
	u.fixedBytes = p.base + p.used + p.objectByte*f.objectBytes + p.definition*c.Definitions
	u.MemoryBytes, u.StormBytes = u.fixedBytes, u.fixedBytes
	return u
}

// sizeTree returns the number of replicas at each depth. The last tier has enough replicas for its
// readers: each replica stays within the bounds sizedCPU, sizedMemory, sizedNetwork and sizedEvent.
// Each tier before it has enough replicas to feed the next tier, with at most fanout children each.
func (m *calculator) sizeTree(c *Cluster, l *load, w *writeLoad, f feed) []int {
	p := m.replica
	one := m.replicaUsage(c, w, f, 1)
	memory := l.watches*(p.watch+c.Storm*p.stormWatch) + l.connections*p.connection
	stormCPU, stormSent := stormCosts(c, l, p)
	eventCPU, eventBytes := costliestEvent(l, p)
	processors, network := sizedCPU*c.Cores, sizedNetwork*c.networkBytes()
	counts := []int{processCount(1, []demand{
		{readCPU(l, p) + w.kubelets*p.passOn + w.gets*p.request, processors - one.fixedCPU},
		{memory, sizedMemory*c.MemoryBytes - one.fixedBytes},
		{readSent(l, p), network},
		{eventCPU, sizedEvent * c.Cores}, {eventBytes, sizedEvent * c.networkBytes()},
		{stormCPU, requestTimeoutSeconds * processors}, {stormSent, requestTimeoutSeconds * network},
	})}
	bytes := f.bytes * m.feedSent[replica]
	for counts[0] > c.Servers*fanout {
		children := float64(counts[0])
		feeding := children * f.perSecond * p.eventSeconds(bytes/max(1, f.perSecond))
		n := processCount(children/fanout, []demand{
			{w.kubelets*p.passOn + feeding, processors - one.fixedCPU}, {children * bytes, network},
		})
		if n >= counts[0] {
			break // a further tier would be no smaller: the limits show it
		}
		counts = append([]int{n}, counts...)
	}
	return counts
}

// demand is what processes must serve together, and the part of it that one process can serve.
type demand struct{ total, perProcess float64 }

// processCount returns the number of processes that serve all demands, from atLeast to maxReplicas.
// It ignores a demand of which one process can serve nothing: the limits show that.
func processCount(atLeast float64, demands []demand) int {
	for _, d := range demands {
		if d.perProcess > 0 {
			atLeast = max(atLeast, d.total/d.perProcess)
		}
	}
	return int(min(maxReplicas, math.Ceil(atLeast)))
}
