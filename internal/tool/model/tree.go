package model

import (
	"maps"
	"math"
	"slices"
)

// feed is what a replica follows.
type feed struct {
	perSecond, bytes float64 // events in a second, and their bytes as JSON
	resources        float64
	objectBytes      float64 // as JSON
}

// feedOf is what replicas follow: all that is read at them.
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

// addTree adds replicas, and what they cost the servers.
func (m *calculator) addTree(c *Cluster, l *load, w *writeLoad, u *Usage) {
	f := c.feedOf(l)
	counts := c.tree
	if counts == nil {
		counts = m.sizeTree(c, l, w, f)
	}
	u.Tiers = make([]ProcessUsage, 0, len(counts)) // so that above stays what it is
	above, aboveKind := &u.Servers, u.Servers.prices
	for depth, n := range counts {
		tier := m.replicaUsage(c, w, f, n)
		if depth+1 == len(counts) {
			// The GETs of kubelets are answered here.
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
		above.BegunBytes += each * (f.resources*(aboveKind.watch+aboveKind.begin) + aboveKind.connection)
		u.Tiers = append(u.Tiers, tier)
		above, aboveKind = &u.Tiers[depth], m.replica
	}
}

// replicaUsage is so many replicas without their readers.
func (m *calculator) replicaUsage(c *Cluster, w *writeLoad, f feed, n int) ProcessUsage {
	p := m.replica
	u := ProcessUsage{Processes: n, prices: p}
	u.fixedCPU = p.idle + p.quietShare(p.takeQuiet, p.takeBusy, f.perSecond)
	u.CPU = float64(n)*u.fixedCPU + w.kubelets*p.passOn
	u.fixedBytes = p.base + p.used + p.objectByte*f.objectBytes + p.definition*c.Definitions
	u.MemoryBytes, u.BegunBytes = u.fixedBytes, u.fixedBytes
	return u
}

// sizeTree counts replicas: in the last tier as many as keep each within its part of processors, memory,
// network and time, and as many in front of them as keep the fan-out and their own parts.
func (m *calculator) sizeTree(c *Cluster, l *load, w *writeLoad, f feed) []int {
	p := m.replica
	one := m.replicaUsage(c, w, f, 1)
	memory := l.watches*(p.watch+c.Storm*p.begin) + l.connections*p.connection
	beginCPU, beginSent := beginCosts(c, l, p)
	eventCPU, eventBytes := mostEvent(l, p)
	processors, network := sizedCPU*c.Cores, sizedNetwork*c.networkBytes()
	counts := []int{count(1, [][2]float64{
		{readCPU(l, p) + w.kubelets*p.passOn + w.gets*p.request, processors - one.fixedCPU},
		{memory, sizedMemory*c.MemoryBytes - one.fixedBytes},
		{readSent(l, p), network},
		{eventCPU, sizedEvent * c.Cores}, {eventBytes, sizedEvent * c.networkBytes()},
		{beginCPU, requestTimeout * processors}, {beginSent, requestTimeout * network},
	})}
	bytes := f.bytes * m.feedSent[replica]
	for counts[0] > c.Servers*fanout {
		children := float64(counts[0])
		feeding := children * f.perSecond * p.eventSeconds(bytes/max(1, f.perSecond))
		n := count(children/fanout, [][2]float64{{w.kubelets*p.passOn + feeding, processors - one.fixedCPU}, {children * bytes, network}})
		if n >= counts[0] {
			break // one more tier would be no smaller: a limit says so
		}
		counts = append([]int{n}, counts...)
	}
	return counts
}

// count is how many processes are needed: at least so many, and for each need as many as have
// all of it together. What one process cannot have at all is left to the limits.
func count(least float64, needs [][2]float64) int {
	for _, need := range needs {
		if need[1] > 0 {
			least = max(least, need[0]/need[1])
		}
	}
	return int(min(maxReplicas, math.Ceil(least)))
}
