package analyze

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/millrace/millrace/internal/account/distinct"
	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/auditlog"
)

// Bounds of the collector.
const (
	maxCells     = 6000
	maxClients   = 3000
	maxResources = 500
	maxInstances = 100_000
)

// Times of a start, in microseconds. A start is a LIST of a client's instance that listed
// nothing for startGap. What it sends within startWindow belongs to the start.
const (
	startGap    = 10 * 60 * 1e6
	startWindow = 2 * 60 * 1e6
)

// collector counts events by client and shape, in bounded memory.
type collector struct {
	cells     *boundedTable[cellKey, cell]
	clients   *boundedTable[serverreport.Client, client]
	resources *boundedTable[string, resourceCounts]
	// starts is when an instance of a client began to list, by hash. started are their hashes in
	// the order in which they came, from the oldest one on at oldest.
	starts  map[uint64]startTimes
	started []uint64
	oldest  int
	// dropped is the sum of cells that were dropped.
	dropped  cell
	timeline timeline
	// first and last are the times of the first and the last event, in microseconds.
	first, last int64
	// events are those that were counted, others those of other stages.
	events, others uint64

	// forecasts sum what would become of reads behind a replica. questions are what it would
	// ask for them.
	forecasts Forecast
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
	requests, errors        uint64
	gone, throttled, failed uint64
	// started and ended are watches.
	started, ended uint64
	// lasted is the sum of durations of requests, watched that of watches that ended, both in
	// microseconds. Their sums do not depend on the order.
	lasted, watched int64
	// answerBytes is the size of answeredRequests answers that the log holds.
	answerBytes, answered uint64
	// atStart are requests that belong to starts of instances.
	atStart   uint64
	instances distinct.Counter
	// namespace is that of the requests, unless there are several.
	namespace  string
	namespaces bool
}

// client counts what a client did in all.
type client struct {
	instances distinct.Counter
	starts    uint64
	requests  uint64
}

// resourceCounts are what a log tells about the objects of a resource.
type resourceCounts struct {
	names, namespaces distinct.Counter
	// writes are changes of objects.
	writes uint64
}

// startTimes are in microseconds: when the last start began, and when the last LIST was.
type startTimes struct{ began, listed int64 }

// hashOf is a hash of a name or of several. It is the same in each run.
func hashOf(name []byte) uint64 { return xxhash.Sum64(name) }

func newCollector() *collector {
	c := &collector{starts: map[uint64]startTimes{}, questions: questions{}}
	c.cells = newBoundedTable(maxCells, (*cell).weight, func(_ cellKey, dropped *cell) { c.dropped.merge(dropped) })
	c.clients = newBoundedTable(maxClients, func(v *client) float64 { return float64(v.requests) }, func(serverreport.Client, *client) {})
	c.resources = newBoundedTable(maxResources, func(v *resourceCounts) float64 { return float64(v.names.Count()) }, func(string, *resourceCounts) {})
	return c
}

// weight ranks cells without knowing sizes. Rare requests of many objects must outlive
// frequent ones of one object.
func (c *cell) weight() float64 { return float64(c.requests) + float64(c.started) + 1000*c.seconds() }

func (c *cell) seconds() float64 { return float64(c.lasted) / 1e6 }

func (c *cell) watchedSeconds() float64 { return float64(c.watched) / 1e6 }

func (c *cell) merge(d *cell) {
	c.requests += d.requests
	c.errors += d.errors
	c.started += d.started
	c.ended += d.ended
	c.lasted += d.lasted
}

// observe counts an event, which must have a time.
func (c *collector) observe(e *auditlog.Event) {
	stage := string(e.Stage)
	started := stage == auditlog.StageStarted
	if !started && stage != auditlog.StageComplete && stage != auditlog.StagePanic || started && string(e.Verb) != "watch" {
		c.others++
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
	instance := c.instance(e, key.client)
	who := c.clients.row(key.client)
	who.requests++
	who.instances.Add(instance)
	v := c.cells.row(key)
	v.instances.Add(instance)
	v.addNamespace(c.shaper.Word(r.Namespace))
	v.add(e, started)
	counted := started || key.Verb != "watch"
	if counted {
		forecast := c.forecast(e, &key.Shape)
		c.forecasts.add(&forecast)
		c.timeline.add(now, key.Verb)
		if c.inStart(instance, now, key.anew(), who) {
			v.atStart++
		}
	}
	c.addNames(e, &r, &key.Shape)
}

// add counts one event in the cell.
func (c *cell) add(e *auditlog.Event, started bool) {
	lasted := int64(0)
	if e.Received > 0 {
		lasted = max(0, e.Staged-e.Received)
	}
	if started {
		c.started++
		return
	}
	if string(e.Verb) == "watch" {
		c.ended++
		c.watched += lasted
	} else {
		c.requests++
		c.lasted += lasted
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
		c.answered++
		c.answerBytes += uint64(e.ResponseBytes)
	}
}

func (c *cell) addNamespace(name string) {
	if c.namespace == "" {
		c.namespace = name
	}
	c.namespaces = c.namespaces || name != c.namespace
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
func (c *collector) instance(e *auditlog.Event, who serverreport.Client) uint64 {
	c.scratch = auditlog.AppendInstance(c.scratch[:0], e, who)
	return hashOf(c.scratch)
}

// inStart reports whether a request now belongs to a start of its instance.
func (c *collector) inStart(instance uint64, now int64, anew bool, who *client) bool {
	times, known := c.starts[instance]
	if anew {
		if !known || now-times.listed > startGap {
			times.began = now
			who.starts++
		}
		if !known {
			c.addStarted(instance)
		}
		times.listed = max(times.listed, now)
		c.starts[instance] = times
		known = true
	}
	return known && now-times.began <= startWindow
}

// addStarted makes room for an instance in place of the one that came first.
func (c *collector) addStarted(instance uint64) {
	if len(c.started) < maxInstances {
		c.started = append(c.started, instance)
		return
	}
	delete(c.starts, c.started[c.oldest])
	c.started[c.oldest] = instance
	c.oldest = (c.oldest + 1) % maxInstances
}

// addNames counts what a log tells about objects.
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
		counts.namespaces.Add(hashOf(r.Namespace))
	}
	if len(r.Name) > 0 {
		c.scratch = append(append(append(c.scratch[:0], auditlog.Clip(r.Namespace)...), '/'), auditlog.Clip(r.Name)...)
		counts.names.Add(hashOf(c.scratch))
	}
}

// changingSubresources are those whose requests change the object itself. Requests of
// others use it, as exec does, or make something else, as token does.
var changingSubresources = []string{"status", "scale", "binding", "eviction", "ephemeralcontainers", "resize", "approval", "finalize"}

// changes reports whether a request changes one object, if it succeeds. A create has no
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
