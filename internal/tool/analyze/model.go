package analyze

import (
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/clusterprofile"
	"github.com/millrace/millrace/internal/tool/price"
)

// Values of SentShape.Source.
const (
	fromCache = "cache"
	fromEtcd  = "etcd"
)

// model estimates the work of a server for requests, and its cost.
type model struct {
	options *Options
	prices  *price.List
	cluster *cluster
}

// cluster has the numbers of objects of resources: from a profile, or otherwise from the log.
type cluster struct {
	resources map[string]*clusterprofile.Resource
	// writes is the number of changes of each resource in the log.
	writes map[string]float64
	period float64 // of the log, in seconds
	nodes  float64 // number of nodes
}

// newCluster returns the numbers of a profile, and of the collector for the resources that the
// profile lacks. p may be nil.
func newCluster(p *clusterprofile.Profile, c *collector) *cluster {
	m := &cluster{
		resources: map[string]*clusterprofile.Resource{}, writes: map[string]float64{},
		period: max(1, float64(c.last-c.first)/1e6),
	}
	for resource, counts := range c.resources.rows {
		m.writes[resource] = float64(counts.writes)
		m.resources[resource] = &clusterprofile.Resource{
			Resource: resource, Objects: float64(counts.names.Count()), Namespaces: float64(counts.namespaces.Count()),
		}
	}
	if p != nil {
		for i := range p.Resources {
			r := p.Resources[i]
			m.resources[r.Resource] = &r
		}
	}
	nodes := m.resource("nodes")
	if p == nil || p.Find("nodes") == nil {
		for client, counts := range c.clients.rows {
			if client.User == auditlog.NodeUser {
				nodes.Objects = max(nodes.Objects, float64(counts.instances.Count()))
			}
		}
	}
	m.nodes = max(1, nodes.Objects)
	return m
}

// resource returns the numbers of a resource. An unknown resource has one object of a usual size.
func (c *cluster) resource(name string) *clusterprofile.Resource {
	name, _, _ = strings.Cut(name, "/")
	r := c.resources[name]
	if r == nil {
		r = &clusterprofile.Resource{Resource: name}
		c.resources[name] = r
	}
	r.Objects = max(1, r.Objects)
	r.SetDefaults()
	return r
}

// selectedFraction returns the fraction of the objects in a shape's scope that its selectors
// select.
func (c *cluster) selectedFraction(s *serverreport.Shape) float64 {
	r := c.resource(s.Resource)
	labels, fields := s.SelectorKeys("labels"), s.SelectorKeys("fields")
	known := slices.ContainsFunc(r.Fields, func(k clusterprofile.Key) bool { return k.Key == nodeField })
	if i := slices.Index(fields, nodeField); i >= 0 && !known {
		return r.SelectedFraction(labels, slices.Delete(slices.Clone(fields), i, i+1)) / c.nodes
	}
	return r.SelectedFraction(labels, fields)
}

const (
	nodeField      = "spec.nodeName"
	nameField      = "metadata.name"
	namespaceField = "metadata.namespace"
)

// objects has the numbers of objects that the server looks at and returns for one request.
type objects struct{ scanned, returned float64 }

// objectsOf returns the objects of a GET, a LIST, or the initial events of a WATCH.
func (m *model) objectsOf(s *serverreport.Shape) objects {
	if s.Scope == serverreport.ScopeName && s.Verb != "watch" {
		return objects{1, 1}
	}
	r := m.cluster.resource(s.Resource)
	inScope := r.Objects
	switch s.Scope {
	case serverreport.ScopeNamespace:
		inScope = r.InNamespace()
	case serverreport.ScopeName:
		inScope = 1
	}
	o := objects{scanned: inScope, returned: inScope * m.cluster.selectedFraction(s)}
	fields := s.SelectorKeys("fields")
	indexed := slices.Contains(fields, nameField) || slices.Contains(fields, nodeField) && !m.fromEtcd(s)
	switch {
	case indexed && s.Limit == 0, slices.Contains(fields, nameField):
		o.scanned = o.returned
	case m.obeysLimit(s):
		o = m.pageObjects(s, o)
	}
	return o
}

// obeysLimit reports whether the server obeys the limit.
func (m *model) obeysLimit(s *serverreport.Shape) bool {
	return s.Limit > 0 && s.Revision != serverreport.RevisionAny
}

// pageObjects returns the objects of a page of a LIST. whole has the objects of the LIST without a
// limit. kube-apiserver looks at all objects in its cache from the start of the page on: for a
// later page, at half of the objects in the mean.
func (m *model) pageObjects(s *serverreport.Shape, whole objects) objects {
	returned := min(whole.returned, float64(s.Limit))
	if m.fromEtcd(s) {
		return objects{returned / max(1e-9, whole.returned) * whole.scanned, returned}
	}
	if s.Revision == serverreport.RevisionContinue {
		return objects{whole.scanned / 2, returned}
	}
	return objects{whole.scanned, returned}
}

// Minor versions since which kube-apiserver answers LISTs from its cache: LISTs without a resource
// version, and then such LISTs with a limit. Last come later pages, exact revisions, and LISTs with a
// limit and a minimum version.
const (
	consistentListMinor = 31
	limitedListMinor    = 33
	snapshotListMinor   = 34
)

// uncached are the resources for which kube-apiserver has no watch cache.
var uncached = []string{"events", "events.events.k8s.io"}

// fromEtcd reports whether kube-apiserver reads the objects of a request from etcd.
func (m *model) fromEtcd(s *serverreport.Shape) bool {
	minor := m.options.minor
	switch {
	case s.Verb == "watch":
		return false
	case slices.Contains(uncached, s.Resource):
		return true
	case s.Verb == "get":
		return s.Revision == serverreport.RevisionUnset
	case s.Revision == serverreport.RevisionContinue, s.Revision == serverreport.RevisionExact,
		s.Limit > 0 && s.Revision == serverreport.RevisionAtLeast:
		return minor < snapshotListMinor
	case s.Revision == serverreport.RevisionUnset && s.Limit > 0:
		return minor < limitedListMinor
	}
	return s.Revision == serverreport.RevisionUnset && minor < consistentListMinor
}

// source returns the SentShape.Source of requests of a shape.
func (m *model) source(s *serverreport.Shape) string {
	if m.fromEtcd(s) {
		return fromEtcd
	}
	return fromCache
}

// objectBytes returns the mean size of an object in an encoding. Rows of tables have about the same
// size for any object.
func (m *model) objectBytes(resource, encoding string) float64 {
	r := m.cluster.resource(resource)
	switch {
	case encoding == price.Protobuf && r.ProtobufBytes > 0:
		return r.ProtobufBytes
	case encoding == price.Table:
		return min(tableRowBytes, r.Bytes)
	}
	return r.Bytes
}

// tableRowBytes is the size of a row of a table, with the object's metadata.
const tableRowBytes = 2900

// readVerbs are the verbs whose cost the model knows.
var readVerbs = []string{"get", "list", "watch"}

// cost returns the sum of the costs of a cell's requests. s is their shape, with an Encoding.
// initial says that watches start with all objects. Only reads of objects cost CPU and bytes.
func (m *model) cost(s *serverreport.Shape, initial bool, v *cell) Cost {
	requests := v.requests
	if s.Verb == "watch" {
		requests = max(v.started, v.ended)
	}
	c := Cost{ListCost: serverreport.ListCost{Requests: requests, Seconds: v.seconds()}, Errors: v.errors}
	if !slices.Contains(readVerbs, s.Verb) || s.Version == "" || strings.Contains(s.Resource, "/") {
		return c
	}
	// Requests that failed returned nothing.
	good := float64(requests - min(requests, v.errors))
	one := m.requestWork(s, initial)
	if v.answerCount > 0 && s.Verb != "watch" {
		mean := float64(v.answerBytes) / float64(v.answerCount)
		one.work.Bytes *= mean / max(1, one.jsonBytes)
		one.tier.Bytes = one.work.Bytes
		one.returned = mean / m.cluster.resource(s.Resource).Bytes
	}
	events := 0.0
	if s.Verb == "watch" {
		instances := float64(max(1, v.instances.Count()))
		events = m.eventCount(s) * instances * v.openFraction(m.cluster.period, instances)
	}
	return m.addPrices(one, &c, good, events)
}

// oneRequest is the work of a server for one request.
type oneRequest struct {
	objects
	// jsonBytes and scannedBytes are the sizes, as JSON, of the objects that are returned and
	// looked at.
	jsonBytes, scannedBytes float64
	// work is the work of kube-apiserver, and tier the work of a replica.
	work, tier price.Work
	// eventBytes is the size of one event of a watch.
	eventBytes float64
}

// requestWork returns the work for one request of a shape. initial says that a watch starts with
// all objects.
func (m *model) requestWork(s *serverreport.Shape, initial bool) oneRequest {
	o := m.objectsOf(s)
	if s.Verb == "watch" && !initial {
		o = objects{}
	}
	r := m.cluster.resource(s.Resource)
	encoding, _, _ := strings.Cut(s.Encoding, " ")
	size := m.objectBytes(s.Resource, encoding)
	one := oneRequest{objects: o, jsonBytes: o.returned * r.Bytes, scannedBytes: o.scanned * r.Bytes, eventBytes: size}
	one.work = price.Work{Requests: 1, Scanned: o.scanned - o.returned, Bytes: o.returned * size, Encoding: encoding}
	if s.Verb == "watch" {
		one.work.Requests, one.work.Watches = 0, 1
		one.work.InitialBytes, one.work.Bytes = one.work.Bytes, 0
	}
	one.tier = one.work
	one.tier.Scanned = 0 // a replica has an index, or the position of the page
	if m.fromEtcd(s) {
		one.work.EtcdBytes, one.work.EtcdSentBytes = o.scanned*r.Bytes, one.jsonBytes
		if s.Verb == "get" {
			one.work.EtcdBytes, one.work.EtcdSentBytes, one.work.EtcdGets = 0, 0, 1
		} else {
			one.work.Scanned = 0 // the price of a byte from etcd includes it
		}
	}
	return one
}

// openFraction returns the fraction of a period, in seconds, for which the watches of some
// instances were open.
//
// The log does not say how long a watch was open that has no end in the log. openFraction assumes
// that each such watch is the last of its instance, and that an instance starts its watches at
// equal intervals. So a sole watch was open for the whole period.
func (v *cell) openFraction(period, instances float64) float64 {
	open := v.watchedSeconds()
	if v.started > v.ended {
		open += float64(v.started-v.ended) * period * instances / float64(v.started)
	}
	return min(1, open/period/instances)
}

// eventCount returns the number of events in the log's period that a watch of a shape receives, if
// it is always open.
func (m *model) eventCount(s *serverreport.Shape) float64 {
	n := m.cluster.writes[s.Resource] * m.cluster.selectedFraction(s)
	if s.Scope == serverreport.ScopeNamespace {
		n /= max(1, m.cluster.resource(s.Resource).Namespaces)
	}
	return n
}

// addPrices returns c with the objects, bytes and CPU of a number of requests like one, and of a
// number of events that their watches receive.
func (m *model) addPrices(one oneRequest, c *Cost, requests, events float64) Cost {
	c.Objects = uint64(one.returned*requests + events)
	c.Scanned = uint64(one.scanned * requests)
	c.ScannedBytes = uint64(one.scannedBytes * requests)
	c.Bytes = uint64((one.work.Bytes+one.work.InitialBytes)*requests + events*one.eventBytes)
	eventWork := price.Work{Events: events}
	c.CPU = m.prices.Stock.CPU(&one.work)*requests + m.prices.Stock.CPU(&eventWork)
	c.TierCPU = m.prices.Millrace.CPU(&one.tier)*requests + m.prices.Millrace.CPU(&eventWork)
	return *c
}

// costOf returns the cost of a number of requests of a shape. Only reads cost anything. Watches have
// no events after the initial ones. initial says that watches start with all objects.
func (m *model) costOf(s *serverreport.Shape, initial bool, requests float64) Cost {
	c := Cost{ListCost: serverreport.ListCost{Requests: uint64(requests + 0.5)}}
	if !slices.Contains(readVerbs, s.Verb) {
		return c
	}
	return m.addPrices(m.requestWork(s, initial), &c, requests, 0)
}
