package replay

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/interrupt"
)

// maxRequests bounds a plan, which is kept in memory.
const maxRequests = 20_000_000

// plan has the requests of a log in the order of time. Requests share targets and instances, which
// they name by their numbers.
type plan struct {
	requests  []request
	targets   []target
	instances []instance
	// first is the time of the first request, in microseconds since 1970. length is the time from
	// then to the last event, in microseconds.
	first, length int64
	// leftOut counts requests that are not sent, by reason.
	leftOut map[string]int
	// notes are sentences on records that are not events. lost is the number of records that
	// could not be read, although they are events.
	notes []string
	lost  int64
}

// request is a request of the log. A plan may have 20 million of them.
type request struct {
	// at is the time at which it was received, in microseconds after plan.first.
	at int64
	// lasts is the time for which a watch was open, in microseconds, or openEnded.
	lasts            int64
	target, instance uint32 // indexes in the plan
}

// openEnded is the request.lasts of a watch whose end is not in the log.
const openEnded = -1

// target is what requests ask for, without the values that mean something only to the server that
// wrote the log.
type target struct {
	path string
	// query has no resourceVersion and no continue.
	query    string
	revision string // serverreport.Revision*
	shape    serverreport.Shape
	// object is the object that a write is sent to, nil for a read.
	object *object
	// collection is a number for the resource, namespace and selectors. A LIST and the watch that
	// follows it have the same collection.
	collection uint32
}

// instance is one process of a client.
type instance struct {
	client    serverreport.Client
	user      string
	groups    []string
	userAgent string
	// identity tells the instances of a user apart: the name of a pod, or an address.
	identity string
}

// Reasons for which a request of a log is not sent.
const (
	leftOutWrite   = "write"
	leftOutStream  = "stream of a pod, a node or a service"
	leftOutRefused = "refused: its client had no right to it, or came too often"
	leftOutOther   = "not a read of a resource, discovery or a document"
	leftOutLong    = "URI of more than 16 KiB"
	leftOutPath    = "path that may lead elsewhere than it reads"
)

// planner builds a plan from events.
type planner struct {
	plan
	// writes says that writes are sent, too.
	writes bool
	shaper auditlog.Shaper
	// The numbers of the targets, collections and instances so far.
	targetNumbers     map[targetKey]uint32
	collectionNumbers map[string]uint32
	instanceNumbers   map[string]uint32
	// open are the indexes of watches whose end was not read yet, by the hash of the audit ID.
	open    map[uint64]int
	scratch []byte
	last    int64 // time of the last event, in microseconds since 1970
	full    bool  // the log has more than maxRequests
	// others is the number of events of other stages.
	others uint64
}

type targetKey struct{ verb, path, query, revision string }

func newPlanner() *planner {
	return &planner{
		plan:          plan{leftOut: map[string]int{}},
		targetNumbers: map[targetKey]uint32{}, collectionNumbers: map[string]uint32{}, instanceNumbers: map[string]uint32{},
		open: map[uint64]int{},
	}
}

// readPlan returns the plan of logs. It calls progress with the bytes that were read of a log. The
// error for logs without a request that can be sent says what to do.
func readPlan(ctx context.Context, paths []string, stdin io.Reader, o *Options, progress func(int64)) (*plan, error) {
	inputs, err := auditlog.Expand(paths)
	if err != nil {
		return nil, err
	}
	p := newPlanner()
	p.writes = o.Writes == WritesOwnNamespaces
	all := make([]auditlog.Counts, len(inputs))
	for i, in := range inputs {
		if all[i], err = in.Read(ctx, stdin, auditlog.Options{Wrapper: o.LogWrapper, KeepGroups: true}, p.observe, progress); err != nil {
			return nil, interrupt.Explain(ctx, err)
		}
		p.lost += all[i].LostRecords()
	}
	p.notes = auditlog.Notes(inputs, all)
	if p.last == 0 {
		return nil, auditlog.NoEventsError(inputs, all, p.others)
	}
	if p.full {
		return nil, fmt.Errorf("the log has more than %d requests: give a part of it", maxRequests)
	}
	return p.finish(paths)
}

// observe adds the request of an event to the plan. The second event of a watch sets its duration.
func (p *planner) observe(e *auditlog.Event) {
	stage := string(e.Stage)
	started := stage == auditlog.StageStarted
	isWatch := string(e.Verb) == "watch"
	if !started && stage != auditlog.StageComplete && stage != auditlog.StagePanic || started && !isWatch {
		p.others++
		return
	}
	p.last = max(p.last, e.Time())
	id := xxhash.Sum64(e.AuditID)
	if isWatch && !started {
		if i, ok := p.open[id]; ok {
			p.requests[i].lasts = max(0, e.Time()-p.requests[i].at)
			delete(p.open, id)
			return
		}
	}
	if reason := p.leaveOut(e); reason != "" {
		p.leftOut[reason]++
		return
	}
	if p.full = p.full || len(p.requests) >= maxRequests; p.full {
		return
	}
	r := request{at: cmp.Or(e.Received, e.StageReached), target: p.targetNumber(e), instance: p.instanceNumber(e)}
	if isWatch {
		r.lasts = e.Time() - r.at
		if started {
			r.lasts = openEnded
			p.open[id] = len(p.requests)
		}
	}
	p.requests = append(p.requests, r)
}

// maxURI bounds the URI of a request, in bytes.
const maxURI = 16 << 10

// streams are the subresources that carry streams of a pod, a node or a service.
var streams = []string{"exec", "attach", "portforward", "proxy", "log"}

// leaveOut returns the reason for which a request is not sent, or "".
func (p *planner) leaveOut(e *auditlog.Event) string {
	switch string(e.Verb) {
	case "get", "list", "watch":
	case "create", "update", "patch", "delete", "deletecollection":
		if p.writes {
			return leaveOutWrite(e)
		}
		return leftOutWrite
	default:
		return leftOutOther
	}
	r := auditlog.ParseURI(e.URI)
	switch {
	case slices.Contains(streams, string(r.Subresource)):
		return leftOutStream
	case e.Code == 401 || e.Code == 403 || e.Code == 429:
		return leftOutRefused
	case len(e.URI) > maxURI:
		return leftOutLong
	case len(r.Resource) == 0 && !isDocument(e.URI):
		return leftOutOther
	case leadsElsewhere(e.URI, &r):
		return leftOutPath
	}
	if _, err := url.ParseRequestURI(string(e.URI)); err != nil {
		return leftOutOther
	}
	return ""
}

// versionName matches the versions of groups.
var versionName = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// leadsElsewhere reports whether a server may take a path for another path than it seems to be.
// Paths come from anybody who could send requests to the logged server, and a replay has rights of
// its own. Slashes and dots may be escaped once or more.
func leadsElsewhere(uri []byte, r *auditlog.Request) bool {
	path, _, _ := bytes.Cut(bytes.ToLower(uri), []byte{'?'})
	for _, odd := range []string{"%2f", "%2e", "%5c", "%25", "/../", "/./", "//"} {
		if bytes.Contains(path, []byte(odd)) {
			return true
		}
	}
	return len(r.Resource) > 0 && !versionName.Match(r.Version)
}

// isDocument reports whether a path is a path of discovery, the OpenAPI or the version.
func isDocument(uri []byte) bool {
	path, _, _ := bytes.Cut(uri, []byte{'?'})
	for _, prefix := range []string{"/api", "/apis", "/openapi", "/version"} {
		if rest, ok := bytes.CutPrefix(path, []byte(prefix)); ok && (len(rest) == 0 || rest[0] == '/') {
			return true
		}
	}
	return false
}

// targetNumber returns the number of an event's target. It adds a new target to the plan.
func (p *planner) targetNumber(e *auditlog.Event) uint32 {
	r := auditlog.ParseURI(e.URI)
	path, query, _ := bytes.Cut(e.URI, []byte{'?'})
	key := targetKey{verb: p.shaper.Intern(e.Verb), path: string(path), query: keptQuery(query), revision: r.RevisionMode()}
	if n, ok := p.targetNumbers[key]; ok {
		return n
	}
	n := uint32(len(p.targets))
	p.targetNumbers[key] = n
	t := target{
		path: key.path, query: key.query, revision: key.revision, shape: p.shaper.Shape(e, &r).Clone(),
		collection: p.collectionNumber(key.path, &r),
	}
	if isWrite(t.shape.Verb) {
		t.object = newObject(&r)
	}
	p.targets = append(p.targets, t)
	return n
}

// collectionNumber returns the number of a request's collection.
func (p *planner) collectionNumber(path string, r *auditlog.Request) uint32 {
	key := strings.Join([]string{path, string(r.LabelSelector), string(r.FieldSelector), string(r.ShardSelector)}, "\x00")
	n, ok := p.collectionNumbers[key]
	if !ok {
		n = uint32(len(p.collectionNumbers))
		p.collectionNumbers[key] = n
	}
	return n
}

// keptQuery returns a query without the parameters for which an instance has values of its own.
func keptQuery(query []byte) string {
	var kept []string
	for pair := range strings.SplitSeq(string(query), "&") {
		switch name, _, _ := strings.Cut(pair, "="); name {
		case "", "resourceVersion", "continue":
		default:
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

// maxGroups bounds the groups of a user that are impersonated.
const maxGroups = 100

// instanceNumber returns the number of an event's instance. It adds a new instance to the plan.
func (p *planner) instanceNumber(e *auditlog.Event) uint32 {
	client := p.shaper.Client(e)
	p.scratch = auditlog.AppendInstance(p.scratch[:0], e, client)
	if n, ok := p.instanceNumbers[string(p.scratch)]; ok {
		return n
	}
	n := uint32(len(p.instances))
	p.instanceNumbers[string(p.scratch)] = n
	identity := e.Pod
	if len(identity) == 0 {
		identity = e.Address
	}
	groups := make([]string, 0, len(e.Groups))
	for _, group := range e.Groups[:min(len(e.Groups), maxGroups)] {
		groups = append(groups, string(auditlog.Clip(group)))
	}
	p.instances = append(p.instances, instance{
		client: client.Clone(), user: string(auditlog.Clip(e.User)), groups: groups,
		userAgent: string(auditlog.Clip(e.UserAgent)), identity: string(auditlog.Clip(identity)),
	})
	return n
}

// finish returns the plan, with requests sorted by time and times relative to the first.
func (p *planner) finish(paths []string) (*plan, error) {
	if len(p.requests) == 0 {
		left := ""
		for _, reason := range slices.Sorted(maps.Keys(p.leftOut)) {
			left += fmt.Sprintf("; %d left out (%s)", p.leftOut[reason], reason)
		}
		return nil, fmt.Errorf("no requests to send in %s%s", strings.Join(paths, ", "), left)
	}
	slices.SortStableFunc(p.requests, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	p.first = p.requests[0].at
	for i := range p.requests {
		p.requests[i].at -= p.first
	}
	p.length = max(0, p.last-p.first)
	return &p.plan, nil
}
