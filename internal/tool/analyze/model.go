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

// model tells what requests make a server do, and what that costs.
type model struct {
	options *Options
	prices  *price.List
	cluster *cluster
}

// cluster has the numbers of resources: a profile's, else what the log tells.
type cluster struct {
	known map[string]*clusterprofile.Resource
	// writes are changes of each resource in the log, within period seconds.
	writes map[string]float64
	period float64
	nodes  float64
}

// newCluster takes counts of resources that the profile, which may be nil, does not have
// from the collector.
func newCluster(p *clusterprofile.Profile, c *collector) *cluster {
	all := &cluster{known: map[string]*clusterprofile.Resource{}, writes: map[string]float64{}, period: max(1, float64(c.last-c.first)/1e6)}
	for resource, counts := range c.resources.rows {
		all.writes[resource] = float64(counts.writes)
		all.known[resource] = &clusterprofile.Resource{Resource: resource, Objects: float64(counts.names.Count()), Namespaces: float64(counts.namespaces.Count())}
	}
	if p != nil {
		for i := range p.Resources {
			r := p.Resources[i]
			all.known[r.Resource] = &r
		}
	}
	nodes := all.resource("nodes")
	if p == nil || p.Find("nodes") == nil {
		for who, counts := range c.clients.rows {
			if who.User == auditlog.NodeUser {
				nodes.Objects = max(nodes.Objects, float64(counts.instances.Count()))
			}
		}
	}
	all.nodes = max(1, nodes.Objects)
	return all
}

// resource returns the numbers of a resource. One that nothing is known of has one object.
func (c *cluster) resource(name string) *clusterprofile.Resource {
	name, _, _ = strings.Cut(name, "/")
	r := c.known[name]
	if r == nil {
		r = &clusterprofile.Resource{Resource: name}
		c.known[name] = r
	}
	r.Objects = max(1, r.Objects)
	r.SetDefaults()
	return r
}

// share returns which part of a resource's objects a shape selects within its scope.
func (c *cluster) share(s *serverreport.Shape) float64 {
	r := c.resource(s.Resource)
	labels, fields := s.SelectorKeys("labels"), s.SelectorKeys("fields")
	known := slices.ContainsFunc(r.Fields, func(k clusterprofile.Key) bool { return k.Key == nodeField })
	if i := slices.Index(fields, nodeField); i >= 0 && !known {
		return r.Share(labels, slices.Delete(slices.Clone(fields), i, i+1)) / c.nodes
	}
	return r.Share(labels, fields)
}

const (
	nodeField      = "spec.nodeName"
	nameField      = "metadata.name"
	namespaceField = "metadata.namespace"
)

// objects are those of one request: what the server has to look at, and what it returns.
type objects struct{ processed, returned float64 }

// objectsOf returns the objects of a GET, a LIST, or the initial events of a WATCH.
func (m *model) objectsOf(s *serverreport.Shape) objects {
	if s.Scope == serverreport.ScopeName && s.Verb != "watch" {
		return objects{1, 1}
	}
	r := m.cluster.resource(s.Resource)
	all := r.Objects
	switch s.Scope {
	case serverreport.ScopeNamespace:
		all = r.InNamespace()
	case serverreport.ScopeName:
		all = 1
	}
	o := objects{processed: all, returned: all * m.cluster.share(s)}
	fields := s.SelectorKeys("fields")
	indexed := slices.Contains(fields, nameField) || slices.Contains(fields, nodeField) && !m.fromEtcd(s)
	switch {
	case indexed && s.Limit == 0, slices.Contains(fields, nameField):
		o.processed = o.returned
	case m.limited(s):
		o = m.page(s, o)
	}
	return o
}

// limited reports whether the server obeys the limit.
func (m *model) limited(s *serverreport.Shape) bool {
	return s.Limit > 0 && s.Revision != serverreport.RevisionAny
}

// page returns the objects of a page of a LIST. The stock server looks at all objects in
// its cache that are behind the page's beginning: half of them for a mean later page.
func (m *model) page(s *serverreport.Shape, whole objects) objects {
	returned := min(whole.returned, float64(s.Limit))
	if m.fromEtcd(s) {
		return objects{returned / max(1e-9, whole.returned) * whole.processed, returned}
	}
	if s.Revision == serverreport.RevisionContinue {
		return objects{whole.processed / 2, returned}
	}
	return objects{whole.processed, returned}
}

// Minor versions since which the stock server answers LISTs from its cache: without a
// resource version, also with a limit, and later pages and exact revisions.
const (
	consistentListMinor = 31
	limitedListMinor    = 33
	snapshotListMinor   = 34
)

// uncached are resources that the stock server keeps no watch cache of.
var uncached = []string{"events", "events.events.k8s.io"}

// fromEtcd reports whether the stock server reads the objects from etcd.
func (m *model) fromEtcd(s *serverreport.Shape) bool {
	minor := m.options.minor
	switch {
	case s.Verb == "watch":
		return false
	case slices.Contains(uncached, s.Resource):
		return true
	case s.Verb == "get":
		return s.Revision == serverreport.RevisionUnset
	case s.Revision == serverreport.RevisionContinue, s.Revision == serverreport.RevisionExact, s.Limit > 0 && s.Revision == serverreport.RevisionAtLeast:
		return minor < snapshotListMinor
	case s.Revision == serverreport.RevisionUnset && s.Limit > 0:
		return minor < limitedListMinor
	}
	return s.Revision == serverreport.RevisionUnset && minor < consistentListMinor
}

func (m *model) source(s *serverreport.Shape) string {
	if m.fromEtcd(s) {
		return fromEtcd
	}
	return fromCache
}

// objectBytes returns the size of an object in a form. Tables have a row of about the same
// size for any object.
func (m *model) objectBytes(resource, form string) float64 {
	r := m.cluster.resource(resource)
	switch {
	case form == price.Protobuf && r.ProtobufBytes > 0:
		return r.ProtobufBytes
	case form == price.Table:
		return min(tableRowBytes, r.Bytes)
	}
	return r.Bytes
}

// tableRowBytes is the size of a row of a table, with the object's metadata.
const tableRowBytes = 2900

// readVerbs are those whose cost is known.
var readVerbs = []string{"get", "list", "watch"}

// cost returns what requests of a shape cost in all. s.Encoding must be set. initial says
// that watches begin with the objects that there are.
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
	one := m.one(s, initial)
	if v.answered > 0 && s.Verb != "watch" {
		mean := float64(v.answerBytes) / float64(v.answered)
		one.work.Bytes *= mean / max(1, one.jsonBytes)
		one.tier.Bytes = one.work.Bytes
		one.returned = mean / m.cluster.resource(s.Resource).Bytes
	}
	events := 0.0
	if s.Verb == "watch" {
		instances := float64(max(1, v.instances.Count()))
		events = m.events(s) * instances * v.openShare(m.cluster.period, instances)
	}
	return m.price(one, &c, good, events)
}

// oneRequest is what one request makes a server do.
type oneRequest struct {
	objects
	// jsonBytes and scannedBytes are the sizes as JSON of what is returned and looked at.
	jsonBytes, scannedBytes float64
	work, tier              price.Work
	// eventBytes is the size of one event.
	eventBytes float64
}

func (m *model) one(s *serverreport.Shape, initial bool) oneRequest {
	o := m.objectsOf(s)
	if s.Verb == "watch" && !initial {
		o = objects{}
	}
	r := m.cluster.resource(s.Resource)
	form, _, _ := strings.Cut(s.Encoding, " ")
	size := m.objectBytes(s.Resource, form)
	one := oneRequest{objects: o, jsonBytes: o.returned * r.Bytes, scannedBytes: o.processed * r.Bytes, eventBytes: size}
	one.work = price.Work{Requests: 1, Scanned: o.processed - o.returned, Bytes: o.returned * size, Form: form}
	if s.Verb == "watch" {
		one.work.Requests, one.work.Watches = 0, 1
		one.work.InitialBytes, one.work.Bytes = one.work.Bytes, 0
	}
	one.tier = one.work
	one.tier.Scanned = 0 // an index, or the position of a page
	if m.fromEtcd(s) {
		one.work.EtcdBytes, one.work.EtcdSentBytes = o.processed*r.Bytes, one.jsonBytes
		if s.Verb == "get" {
			one.work.EtcdBytes, one.work.EtcdSentBytes, one.work.EtcdGets = 0, 0, 1
		} else {
			one.work.Scanned = 0 // the price of a byte from etcd has it
		}
	}
	return one
}

// openShare returns for which part of a period the watches of a number of instances were
// open.
//
// The log does not tell for how long a watch was open that has not ended in it. It is taken
// to be the last one of its instance, and the instance to begin its watches at even
// distances: a sole watch was then open for the whole period.
func (v *cell) openShare(period, instances float64) float64 {
	open := v.watchedSeconds()
	if v.started > v.ended {
		open += float64(v.started-v.ended) * period * instances / float64(v.started)
	}
	return min(1, open/period/instances)
}

// events returns how many events of a log's period a watch of a shape is sent that is always
// open.
func (m *model) events(s *serverreport.Shape) float64 {
	n := m.cluster.writes[s.Resource] * m.cluster.share(s)
	if s.Scope == serverreport.ScopeNamespace {
		n /= max(1, m.cluster.resource(s.Resource).Namespaces)
	}
	return n
}

// price completes the cost of requests of one kind.
func (m *model) price(one oneRequest, c *Cost, requests, events float64) Cost {
	c.Objects = uint64(one.returned*requests + events)
	c.Scanned = uint64(one.processed * requests)
	c.ScannedBytes = uint64(one.scannedBytes * requests)
	c.Bytes = uint64((one.work.Bytes+one.work.InitialBytes)*requests + events*one.eventBytes)
	eventWork := price.Work{Events: events}
	c.CPU = m.prices.Stock.CPU(&one.work)*requests + m.prices.Stock.CPU(&eventWork)
	c.TierCPU = m.prices.Millrace.CPU(&one.tier)*requests + m.prices.Millrace.CPU(&eventWork)
	return *c
}

// costOf is the cost of a number of reads of a shape, of watches without the events that follow.
// initial says that watches begin with the objects that there are.
func (m *model) costOf(s *serverreport.Shape, initial bool, requests float64) Cost {
	c := Cost{ListCost: serverreport.ListCost{Requests: uint64(requests + 0.5)}}
	if !slices.Contains(readVerbs, s.Verb) {
		return c
	}
	return m.price(m.one(s, initial), &c, requests, 0)
}
