package model

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/tool/agentprofile"
)

// load is what programs read, of one profile or of all.
type load struct {
	// connections are one for each program, or more where it has more watches than one takes.
	connections, watches float64
	// streams is the most watches of one program.
	streams float64
	events  map[string]*eventLoad // by resource
	// steady has reads in a second, begin those of all programs when they begin.
	steady, begin []readLoad
	// resources are those that are read, unknown those of them whose numbers are guesses.
	resources, unknown map[string]bool
}

// eventLoad is the events of one resource to watchers.
type eventLoad struct {
	perSecond float64
	watchers  float64 // of each event
	bytes     float64 // to all of them
}

// readLoad is requests of one kind.
type readLoad struct {
	count    float64
	kind     readKind
	objects  float64 // returned
	bytes    float64 // of them, in the form
	scanned  float64 // objects that were looked at for a selector
	form     string
	gzip     bool // on the wire
	fromEtcd bool
}

type readKind int

const (
	readGet readKind = iota
	readList
	readOpen    // a watch that begins without objects
	readInitial // a watch that begins with all objects
)

// gzipFrom is the size from which a LIST is compressed, as in Kubernetes.
const gzipFrom = 128 << 10

func newLoad() *load {
	return &load{events: map[string]*eventLoad{}, resources: map[string]bool{}, unknown: map[string]bool{}}
}

// wire is what programs and servers agree on.
type wire struct {
	protobufRatio float64 // the size of protobuf, to that of JSON
	streams       float64 // watches of one connection
}

// add adds the reads of a profile's agents that run on each node, or of those in the cluster.
func (l *load) add(c *Cluster, p *agentprofile.Profile, per string, w wire) {
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
		program := &programLoad{load: l, cluster: c, instances: instances, protobufRatio: w.protobufRatio, restarts: perSecond(a.Restart)}
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
			program.read(r, resource)
		}
		l.connections += instances * max(1, math.Ceil(program.streams/w.streams))
		l.streams = max(l.streams, program.streams)
	}
}

type programLoad struct {
	load          *load
	cluster       *Cluster
	instances     float64
	protobufRatio float64
	restarts      float64 // in a second
	streams       float64
}

// perSecond is how often something happens each so often. Zero: never.
func perSecond(r agentprofile.Range) float64 {
	mean := (r.Min + r.Max).Seconds() / 2
	if mean == 0 {
		return 0
	}
	return 1 / mean
}

func (p *programLoad) read(r *agentprofile.Read, resource resourceLoad) {
	share := p.share(r, resource)
	each := 1.0 // requests of this kind by one program
	if r.OfPods {
		each = p.cluster.volumesPerNode()
	}
	count := p.instances * each
	one := readLoad{kind: readList, objects: resource.objects * share, form: r.Form, scanned: resource.objects}
	one.bytes = one.objects * p.formBytes(r, resource.bytes)
	one.gzip = !r.NoGzip && one.bytes > gzipFrom
	if share == 1 || strings.Contains(r.Fields, "$node") || r.Namespace != "" || r.OfPods {
		one.scanned = 0 // all are returned, or found by an index or a key
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
		p.watch(r, resource, share, count)
		again := perSecond(r.Timeout)
		steady(readOpen, again)
		if r.NoResume {
			steady(first, again)
		}
		steady(first, perSecond(r.Relist))
		p.streams += each
	}
	steady(first, p.restarts)
	begin := one
	begin.kind, begin.count = first, count
	p.load.begin = append(p.load.begin, begin)
	if first == readList && (r.Mode == agentprofile.ModeWatch) {
		open := one
		open.kind, open.count = readOpen, count
		p.load.begin = append(p.load.begin, open)
	}
}

// watch adds open watches, and the events that they receive.
func (p *programLoad) watch(r *agentprofile.Read, resource resourceLoad, share, count float64) {
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
	e.watchers += count * share
	e.bytes += count * share * p.formBytes(r, resource.bytes)
}

// formBytes is the size of an object in a form.
func (p *programLoad) formBytes(r *agentprofile.Read, json float64) float64 {
	switch r.Form {
	case agentprofile.FormProtobuf:
		return json * p.protobufRatio
	case agentprofile.FormMetadata:
		return min(json, metadataBytes) * p.protobufRatio
	}
	return json
}

// share is the part of a resource's objects that a read selects.
func (p *programLoad) share(r *agentprofile.Read, resource resourceLoad) float64 {
	if resource.objects == 0 {
		return 1
	}
	one := 1 / max(1, resource.objects)
	share := 1.0
	switch {
	case r.OfPods, r.Name != "":
		return one
	case strings.Contains(r.Fields, "metadata.name=") && !strings.Contains(r.Fields, "$node"):
		return one
	case strings.Contains(r.Fields+r.Labels, "$node"):
		return 1 / max(1, p.cluster.Nodes)
	case strings.Contains(r.Fields, "metadata.namespace="), r.Namespace != "":
		share = 1 / p.cluster.namespaces()
	}
	if strings.Contains(strings.ReplaceAll(r.Labels, "!=", ""), "=") {
		share *= labelShare
	}
	return max(share, min(1, one))
}

// cpu is the CPU of a read at a process.
func (r *readLoad) cpu(p *prices) float64 {
	form, each := r.pricedForm(), 0.0
	switch r.kind {
	case readGet:
		each = p.request
		if r.fromEtcd {
			each += p.etcdGet
		}
	case readList:
		perByte := p.listByte[form]
		if r.compressed(p) {
			perByte = p.gzipByte[form]
		}
		each = p.request + p.scanned*r.scanned + perByte*r.bytes
	case readOpen:
		each = p.open
	case readInitial:
		each = p.open + p.initialObject*r.objects + p.initialByte*r.bytes
		if r.compressed(p) {
			each += max(0, p.gzipByte[form]-p.listByte[form]) * r.bytes
		}
	}
	return r.count * each
}

// pricedForm is the form whose prices a read has: metadata is sent as protobuf.
func (r *readLoad) pricedForm() string {
	if r.form == agentprofile.FormMetadata {
		return agentprofile.FormProtobuf
	}
	return r.form
}

// compressed says whether a process compresses what it sends for a read. kube-apiserver
// compresses LISTs, and no watches.
func (r *readLoad) compressed(p *prices) bool {
	return r.gzip && (r.kind != readInitial || p.name != kubernetes)
}

func (r *readLoad) sent(p *prices) float64 {
	switch {
	case r.kind == readOpen:
		return 0
	case r.compressed(p):
		return r.count * r.bytes * p.gzipRatio[r.pricedForm()]
	}
	return r.count * r.bytes
}

func (l *load) follows() []string { return slices.Sorted(maps.Keys(l.events)) }
