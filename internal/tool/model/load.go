package model

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/tool/agentprofile"
)

// load sums the reads of programs: of one profile, or of all profiles.
type load struct {
	// A program has one connection, or more if it has more watches than a connection takes.
	connections, watches float64
	// streams is the number of watches of the program with the most watches.
	streams float64
	events  map[string]*eventLoad // by resource
	// steady has the reads per second in steady state. storm has the reads of all programs when
	// they start.
	steady, storm []readLoad
	// resources are the resources that are read. unknown are the resources among them whose
	// numbers are guesses.
	resources, unknown map[string]bool
}

// eventLoad has the events of one resource to watchers.
type eventLoad struct {
	perSecond float64
	watchers  float64 // that receive an event
	bytes     float64 // of an event to all its watchers
}

// readLoad is a number of equal requests. Objects and bytes are of one request.
type readLoad struct {
	count    float64
	kind     readKind
	objects  float64 // that are returned
	bytes    float64 // of the objects, encoded
	scanned  float64 // objects that the server looks at for a selector
	encoding string
	gzip     bool // on the wire
	fromEtcd bool
}

// readKind is a kind of reads with prices of its own.
type readKind int

const (
	readGet readKind = iota
	readList
	readOpen    // the start of a watch without objects
	readInitial // the start of a watch with all objects
)

// gzipFrom is the size from which servers compress a LIST, in bytes.
const gzipFrom = 128 << 10

func newLoad() *load {
	return &load{events: map[string]*eventLoad{}, resources: map[string]bool{}, unknown: map[string]bool{}}
}

// wire has the constants of what programs and servers exchange.
type wire struct {
	protobufRatio float64 // size as protobuf, divided by the size as JSON
	streams       float64 // watches of one connection
}

// addProfile adds the reads of a profile's agents that run per node, or per cluster: per is
// agentprofile.PerNode or agentprofile.PerCluster.
func (l *load) addProfile(c *Cluster, p *agentprofile.Profile, per string, w wire) {
	resources := c.resources()
	for i := range p.Agents {
		a := &p.Agents[i]
		if a.Per != per {
			continue
		}
		instances := float64(a.Instances)
		if a.Per == agentprofile.PerNode {
			instances *= c.Nodes
		}
		program := &programLoad{
			load: l, cluster: c, instances: instances, protobufRatio: w.protobufRatio, restarts: perSecond(a.Restart),
		}
		for j := range a.Reads {
			r := &a.Reads[j]
			name := r.ResourceName()
			resource, known := resources[name]
			if r.Optional && !c.Optional {
				continue
			}
			if !known {
				resource = c.unknownResource()
				l.unknown[name] = true
			}
			l.resources[name] = true
			program.addRead(r, resource)
		}
		l.connections += instances * max(1, math.Ceil(program.streams/w.streams))
		l.streams = max(l.streams, program.streams)
	}
}

// programLoad adds the reads of one program to a load.
type programLoad struct {
	load          *load
	cluster       *Cluster
	instances     float64 // in the whole cluster
	protobufRatio float64
	restarts      float64 // of an instance, per second
	streams       float64 // watches of an instance so far
}

// perSecond returns the rate of something whose interval is in a range. A zero range means never.
func perSecond(interval agentprofile.Range) float64 {
	mean := (interval.Min + interval.Max).Seconds() / 2
	if mean == 0 {
		return 0
	}
	return 1 / mean
}

// addRead adds a read of the program: when the program starts or restarts, and what it repeats.
func (p *programLoad) addRead(r *agentprofile.Read, resource resourceLoad) {
	fraction := p.selectedFraction(r, resource)
	each := 1.0 // requests of this kind by one program
	if r.OfPods {
		each = p.cluster.volumesPerNode()
	}
	count := p.instances * each
	one := readLoad{kind: readList, objects: resource.objects * fraction, encoding: r.Encoding, scanned: resource.objects}
	one.bytes = one.objects * p.encodedBytes(r, resource.bytes)
	one.gzip = !r.NoGzip && one.bytes > gzipFrom
	if fraction == 1 || strings.Contains(r.Fields, "$node") || r.Namespace != "" || r.OfPods {
		one.scanned = 0 // all objects are returned, or an index or a key finds them
	}
	one.fromEtcd = r.ResourceVersion == agentprofile.RevisionUnset
	steady := func(kind readKind, perSecond float64) {
		if perSecond > 0 {
			x := one
			x.kind, x.count = kind, count*perSecond
			p.load.steady = append(p.load.steady, x)
		}
	}
	first := readList
	switch r.Mode {
	case agentprofile.ModePoll:
		steady(readList, perSecond(r.Every))
	case agentprofile.ModeGet:
		first = readGet
		steady(readGet, perSecond(r.Every))
	case agentprofile.ModeWatch, agentprofile.ModeWatchList:
		if r.Mode == agentprofile.ModeWatchList {
			first = readInitial
		}
		p.addWatches(r, resource, fraction, count)
		again := perSecond(r.Timeout)
		steady(readOpen, again)
		if r.NoResume {
			steady(first, again)
		}
		steady(first, perSecond(r.Relist))
		p.streams += each
	}
	steady(first, p.restarts)
	start := one
	start.kind, start.count = first, count
	p.load.storm = append(p.load.storm, start)
	if first == readList && r.Mode == agentprofile.ModeWatch {
		open := one
		open.kind, open.count = readOpen, count
		p.load.storm = append(p.load.storm, open)
	}
}

// addWatches adds count open watches, and the events that they receive.
func (p *programLoad) addWatches(r *agentprofile.Read, resource resourceLoad, fraction, count float64) {
	p.load.watches += count
	if resource.changes == 0 {
		return
	}
	name := r.ResourceName()
	e := p.load.events[name]
	if e == nil {
		e = &eventLoad{perSecond: resource.changes}
		p.load.events[name] = e
	}
	e.watchers += count * fraction
	e.bytes += count * fraction * p.encodedBytes(r, resource.bytes)
}

// encodedBytes returns the size of an object in the encoding of a read. json is its size as JSON.
func (p *programLoad) encodedBytes(r *agentprofile.Read, json float64) float64 {
	switch r.Encoding {
	case agentprofile.EncodingProtobuf:
		return json * p.protobufRatio
	case agentprofile.EncodingMetadata:
		return min(json, metadataBytes) * p.protobufRatio
	}
	return json
}

// selectedFraction returns the fraction of a resource's objects that a read selects.
func (p *programLoad) selectedFraction(r *agentprofile.Read, resource resourceLoad) float64 {
	if resource.objects == 0 {
		return 1
	}
	one := 1 / max(1, resource.objects)
	fraction := 1.0
	switch {
	case r.OfPods, r.Name != "":
		return one
	case strings.Contains(r.Fields, "metadata.name=") && !strings.Contains(r.Fields, "$node"):
		return one
	case strings.Contains(r.Fields+r.Labels, "$node"):
		return 1 / max(1, p.cluster.Nodes)
	case strings.Contains(r.Fields, "metadata.namespace="), r.Namespace != "":
		fraction = 1 / p.cluster.namespaces()
	}
	if strings.Contains(strings.ReplaceAll(r.Labels, "!=", ""), "=") {
		fraction *= labelShare
	}
	return max(fraction, min(1, one))
}

// cpuSeconds returns the CPU of the reads at a process with some prices, in seconds.
func (r *readLoad) cpuSeconds(p *prices) float64 {
	encoding := r.pricedEncoding()
	var each float64 // seconds of one read
	switch r.kind {
	case readGet:
		each = p.request
		if r.fromEtcd {
			each += p.etcdGet
		}
	case readList:
		perByte := p.listByte[encoding]
		if r.isCompressed(p) {
			perByte = p.gzipByte[encoding]
		}
		each = p.request + p.scanned*r.scanned + perByte*r.bytes
	case readOpen:
		each = p.open
	case readInitial:
		each = p.open + p.initialObject*r.objects + p.initialByte*r.bytes
		if r.isCompressed(p) {
			each += max(0, p.gzipByte[encoding]-p.listByte[encoding]) * r.bytes
		}
	}
	return r.count * each
}

// pricedEncoding returns the encoding whose prices apply to a read: metadata is sent as protobuf.
func (r *readLoad) pricedEncoding() string {
	if r.encoding == agentprofile.EncodingMetadata {
		return agentprofile.EncodingProtobuf
	}
	return r.encoding
}

// isCompressed reports whether a process compresses the answer to a read. kube-apiserver compresses
// LISTs, but not watches.
func (r *readLoad) isCompressed(p *prices) bool {
	return r.gzip && (r.kind != readInitial || p.name != kubernetes)
}

// sentBytes returns the bytes that a process sends for the reads.
func (r *readLoad) sentBytes(p *prices) float64 {
	switch {
	case r.kind == readOpen:
		return 0
	case r.isCompressed(p):
		return r.count * r.bytes * p.gzipRatio[r.pricedEncoding()]
	}
	return r.count * r.bytes
}

// eventResources returns the names of the resources with events, sorted, so that sums are the same
// in each run.
func (l *load) eventResources() []string { return slices.Sorted(maps.Keys(l.events)) }
