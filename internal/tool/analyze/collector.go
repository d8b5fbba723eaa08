package analyze

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/millrace/millrace/internal/account/distinct"
	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/auditlog"
)

// Bounds of the collector, as numbers of rows and of instances.
const (
	maxCells     = 6000
	maxClients   = 3000
	maxResources = 500
)

// collector counts events by client and shape, in bounded memory. The order of events does not
// matter, unless a boundedTable is full. The caller must call finish after the last event.
type collector struct {
	cells     *boundedTable[cellKey, cell]
	clients   *boundedTable[serverreport.Client, client]
	resources *boundedTable[string, resourceCounts]
	starts    *startCounter
	// lastNumber is the cell.number of the cell that was added last.
	lastNumber uint32
	// dropped is the sum of the cells that were dropped.
	dropped  cell
	timeline timeline
	// first and last are the times of the first and the last event, in microseconds since 1970.
	first, last int64
	// events is the number of events that were counted. ignored is the number of events of stages
	// that are not counted.
	events, ignored uint64

	serverMinors serverMinors

	// forecast sums the forecasts of reads. Until finish, it counts all reads in questions as
	// unproven.
	forecast  Forecast
	questions questions

	shaper  auditlog.Shaper
	scratch []byte
}

// cellKey is a client and a shape. The shape has no Encoding, Path, Reason and Source.
type cellKey struct {
	client serverreport.Client
	SentShape
}

// cell counts the requests of one client and shape.
type cell struct {
	number                  uint32 // of the cell, from 1 on
	requests, errors        uint64
	gone, throttled, failed uint64
	// started and ended are watches.
	started, ended uint64
	// requestMicros is the sum of the durations of requests, and watchMicros the sum of the
	// durations of watches that ended. They are integers, so that their order does not matter.
	requestMicros, watchMicros int64
	// answerBytes is the size of the answerCount answers that the log holds.
	answerBytes, answerCount uint64
	// atStart counts the requests that belong to starts of instances. finish sets it.
	atStart   uint64
	instances distinct.Counter
	// namespace is the namespace of the first request, "" for all namespaces.
	// severalNamespaces says that some requests have another namespace.
	namespace         string
	severalNamespaces bool
}

// client counts all requests of a client.
type client struct {
	instances distinct.Counter
	starts    uint64 // of instances; finish sets it
	requests  uint64 // a watch whose start and end are in the log counts twice
}

// resourceCounts counts what a log has of the objects of a resource.
type resourceCounts struct {
	names, namespaces distinct.Counter
	// writes are changes of objects.
	writes uint64
}

// hash64 returns a hash of names. Names have the same hash in each run.
func hash64(names []byte) uint64 { return xxhash.Sum64(names) }

func newCollector() *collector {
	c := &collector{starts: newStartCounter(), questions: newQuestions(), serverMinors: serverMinors{}}
	c.cells = newBoundedTable(maxCells, (*cell).weight, func(_ cellKey, dropped *cell) { c.dropped.merge(dropped) })
	c.clients = newBoundedTable(maxClients,
		func(v *client) float64 { return float64(v.requests) }, func(serverreport.Client, *client) {})
	c.resources = newBoundedTable(maxResources,
		func(v *resourceCounts) float64 { return float64(v.names.Count()) }, func(string, *resourceCounts) {})
	return c
}

// weight returns the weight of a cell in its boundedTable. Sizes are unknown yet, so the weight is
// derived from durations, too: rare requests for many objects must outlive frequent requests for
// one.
func (c *cell) weight() float64 { return float64(c.requests) + float64(c.started) + 1000*c.seconds() }

// seconds returns the sum of the durations of requests.
func (c *cell) seconds() float64 { return float64(c.requestMicros) / 1e6 }

// watchedSeconds returns the sum of the durations of watches that ended.
func (c *cell) watchedSeconds() float64 { return float64(c.watchMicros) / 1e6 }

// merge adds the counts of d that Report.Rest has.
func (c *cell) merge(d *cell) {
	c.requests += d.requests
	c.errors += d.errors
	c.started += d.started
	c.ended += d.ended
	c.requestMicros += d.requestMicros
}

// observe counts an event, which must have a time.
func (c *collector) observe(e *auditlog.Event) {
	stage := string(e.Stage)
	started := stage == auditlog.StageStarted
	if !started && stage != auditlog.StageComplete && stage != auditlog.StagePanic || started && string(e.Verb) != "watch" {
		c.ignored++
		return
	}
	r := auditlog.ParseURI(e.URI)
	now := e.Time()
	c.events++
	if c.first == 0 || now < c.first {
		c.first = now
	}
	c.last = max(c.last, now)

	key := c.key(e, &r)
	c.serverMinors.add(e, key.client)
	instance := c.instance(e, key.client)
	counts := c.clients.row(key.client)
	counts.requests++
	counts.instances.Add(instance)
	v := c.cells.row(key)
	if v.number == 0 {
		c.lastNumber++
		v.number = c.lastNumber
	}
	v.instances.Add(instance)
	v.addNamespace(c.shaper.Intern(r.Namespace))
	v.add(e, started)
	if started || key.Verb != "watch" {
		forecast := c.forecastRead(e, &key.Shape)
		c.forecast.add(&forecast)
		c.timeline.add(now, key.Verb)
		c.starts.add(instance, v.number, now)
	}
	c.addNames(e, &r, &key.Shape)
}

// add counts an event in the cell. started says that the event is the start of a watch.
func (c *cell) add(e *auditlog.Event, started bool) {
	lasted := int64(0)
	if e.Received > 0 {
		lasted = max(0, e.StageReached-e.Received)
	}
	if started {
		c.started++
		return
	}
	if string(e.Verb) == "watch" {
		c.ended++
		c.watchMicros += lasted
	} else {
		c.requests++
		c.requestMicros += lasted
	}
	switch {
	case e.Code == 410:
		c.gone++
	case e.Code == 429:
		c.throttled++
	case e.Code >= 500 || string(e.Stage) == auditlog.StagePanic:
		c.failed++
	}
	if e.Code >= 400 {
		c.errors++
	}
	if e.ResponseBytes > 0 && e.Code == 200 {
		c.answerCount++
		c.answerBytes += uint64(e.ResponseBytes)
	}
}

// addNamespace notes the namespace of a request.
func (c *cell) addNamespace(name string) {
	if c.namespace == "" {
		c.namespace = name
	}
	c.severalNamespaces = c.severalNamespaces || name != c.namespace
}

// key returns the client and the shape of an event.
func (c *collector) key(e *auditlog.Event, r *auditlog.Request) cellKey {
	k := cellKey{c.shaper.Client(e), SentShape{Shape: c.shaper.Shape(e, r)}}
	if k.Verb == "watch" && k.Version != "" {
		k.Bookmarks, k.InitialEvents = r.Bookmarks, r.InitialEvents
	}
	return k
}

// instance returns a hash of the client and its instance.
func (c *collector) instance(e *auditlog.Event, client serverreport.Client) uint64 {
	c.scratch = auditlog.AppendInstance(c.scratch[:0], e, client)
	return hash64(c.scratch)
}

// finish sets what is known after the last event only.
func (c *collector) finish() {
	c.finishStarts()
	shared := c.questions.sharedFraction() * float64(c.forecast.Unproven)
	c.forecast.Shared = uint64(shared + 0.5)
	c.forecast.Unproven -= c.forecast.Shared
}

// addNames counts the names, namespaces and changes of objects, from which their number is
// estimated if there is no profile.
func (c *collector) addNames(e *auditlog.Event, r *auditlog.Request, s *serverreport.Shape) {
	changed := e.Code < 300 && changes(s.Verb, r)
	if len(r.Name) == 0 && len(r.Namespace) == 0 && !changed || len(r.Resource) == 0 || e.Code == 404 {
		return
	}
	base, _, _ := strings.Cut(s.Resource, "/")
	counts := c.resources.row(base)
	if changed {
		counts.writes++
	}
	if len(r.Namespace) > 0 {
		counts.namespaces.Add(hash64(r.Namespace))
	}
	if len(r.Name) > 0 {
		c.scratch = append(append(append(c.scratch[:0], auditlog.Clip(r.Namespace)...), '/'), auditlog.Clip(r.Name)...)
		counts.names.Add(hash64(c.scratch))
	}
}

// changingSubresources are the subresources whose requests change the object itself. Requests of
// other subresources use the object (exec), or create something else (token).
var changingSubresources = []string{"status", "scale", "binding", "eviction", "ephemeralcontainers", "resize", "approval", "finalize"}

// changes reports whether a request changes one object, if the request succeeds. A create has no
// name in its URI.
func changes(verb string, r *auditlog.Request) bool {
	switch verb {
	case "create", "update", "patch", "delete":
		if len(r.Subresource) > 0 {
			return slices.Contains(changingSubresources, string(r.Subresource))
		}
		return (verb == "create") == (len(r.Name) == 0)
	}
	return false
}
