package hollow

import (
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/conn/watchclient"
	"github.com/millrace/millrace/internal/tool/agentprofile"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

// readPlan is a read of an agent, with the counters of all instances.
type readPlan struct {
	*agentprofile.Read
	list, watch *counter
}

// newReadPlan returns the plan of a read of an agent, and makes its counters.
func newReadPlan(s *counters, agent string, r *agentprofile.Read) *readPlan {
	verb := "list"
	if r.Mode == agentprofile.ModeGet {
		verb = "get"
	}
	plan := &readPlan{Read: r, watch: s.get(agent, "watch", r.Title())}
	plan.list = s.get(agent, verb, r.Title())
	return plan
}

// podSink receives the pods that a reflector reads. The reflector's lock is held.
type podSink interface {
	// beginList is called before all pods are received, for the first time or again.
	beginList()
	// observePod receives an event. Its bytes are valid during the call.
	observePod(kind string, object []byte, form watchevent.Form)
	// endList is called when all pods have been received.
	endList()
}

// reflector is a read of an instance. It follows a resource as client-go's reflectors do, or with the
// habits that its profile gives it.
//
//	         begin             revision known
//	waiting ───────▶ listing ─────────────────▶ watching
//	   ▲                │ done (polls), failed      │ ended, failed
//	   └────────────────┴───────────────────────────┘
//	stop leads from every state to stopped; so does a resource that is not served
//
// Each request is an exchange. At most one exchange is current. An exchange that is no longer current
// changes nothing.
type reflector struct {
	instance *instance
	plan     *readPlan
	path     string
	fields   string
	labels   string
	sink     podSink // nil: objects are thrown away
	number   uint64  // different for each reflector of the fleet

	mu struct {
		sync.Mutex
		state    reflectorState
		current  *exchange // nil while it waits
		timer    *time.Timer
		revision []byte    // the newest revision that was received; empty: none
		resumes  bool      // the next watch continues from revision, without a LIST
		expired  bool      // the server has refused to list at revision
		synced   bool      // the reflector has all objects and an open watch
		began    bool      // the reflector has read all objects before
		retries  int       // of one request that the server has throttled
		failures int       // number of pauses so far, each longer than the pause before, up to a limit
		paused   time.Time // of the last pause
		// withoutWatchList is set once the server has refused a watch-list.
		withoutWatchList bool
	}
}

type reflectorState int

const (
	stateWaiting reflectorState = iota
	stateListing
	stateWatching
	stateStopped
)

// newReflector returns a reflector for a read. name, if it is not empty, is the only object of
// namespace that it reads.
func newReflector(i *instance, plan *readPlan, namespace, name string) *reflector {
	r := &reflector{instance: i, plan: plan, fields: i.expand(plan.Fields), labels: i.expand(plan.Labels), number: i.fleet.informers.Add(1)}
	if name != "" {
		r.fields = "metadata.name=" + name
	}
	if namespace == "" {
		namespace = i.expand(plan.Namespace)
	}
	r.path = plan.Path(namespace, i.expand(plan.Name))
	return r
}

// begin sends the next request.
func (r *reflector) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beginLocked()
}

func (r *reflector) beginLocked() {
	switch {
	case r.mu.state == stateStopped:
	case r.plan.Mode == agentprofile.ModeWatchList && !r.mu.withoutWatchList, r.watches() && r.mu.resumes:
		r.watchLocked()
	default:
		r.listLocked("")
	}
}

func (r *reflector) watches() bool {
	return r.plan.Mode == agentprofile.ModeWatch || r.plan.Mode == agentprofile.ModeWatchList
}

// stop ends the reflector for good.
func (r *reflector) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLocked()
	r.endLocked()
}

// endLocked ends the reflector, whose exchange has ended.
func (r *reflector) endLocked() {
	r.mu.state = stateStopped
	if r.mu.began {
		r.observeLocked(InformerEnded)
	}
}

// observeLocked reports the state of a reflector that watches.
func (r *reflector) observeLocked(state InformerState) {
	if o := r.instance.fleet.cfg.Informers; o != nil && r.watches() {
		o.Informer(r.number, state)
	}
}

// syncLocked sets whether the reflector has all objects and an open watch.
func (r *reflector) syncLocked(synced bool) {
	if r.mu.synced == synced {
		return
	}
	r.mu.synced = synced
	if synced {
		r.observeLocked(InformerSynced)
	} else {
		r.observeLocked(InformerLost)
	}
}

// forgetLocked makes the next read start anew, as if it were the first.
func (r *reflector) forgetLocked() { r.mu.revision, r.mu.resumes = r.mu.revision[:0], false }

// dropLocked ends the current exchange and the timer.
func (r *reflector) dropLocked() {
	if r.mu.timer != nil {
		r.mu.timer.Stop()
	}
	if x := r.mu.current; x != nil {
		r.mu.current = nil
		x.closeWatch()
		x.stream.Cancel()
	}
}

// waitLocked sends the next request after a pause.
func (r *reflector) waitLocked(pause time.Duration) {
	r.mu.state = stateWaiting
	r.mu.timer = time.AfterFunc(pause, r.begin)
}

// relist lists again, although the watch of x is open.
func (r *reflector) relist(x *exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.current != x {
		return
	}
	r.dropLocked()
	r.forgetLocked()
	r.beginLocked()
}

// listLocked sends a LIST or GET. token is the continue token of a further page, or "".
func (r *reflector) listLocked(token string) {
	if token == "" {
		r.countAnewLocked(r.plan.list)
	}
	r.mu.state = stateListing
	query := r.selectors()
	known := r.watches() && len(r.mu.revision) > 0
	if r.plan.Limit > 0 {
		query.Set("limit", strconv.Itoa(r.plan.Limit))
	}
	switch {
	case token != "":
		query.Set("continue", token)
	case r.plan.ResourceVersion == agentprofile.RevisionUnset, known && r.mu.expired:
	case known: // as client-go, so that the server can answer from its cache
		query.Set("resourceVersion", string(r.mu.revision))
		query.Del("limit")
	default:
		query.Set("resourceVersion", "0")
	}
	gzip := !r.plan.NoGzip && r.plan.BuiltIn() && r.sink == nil
	r.sendLocked(&exchange{counter: r.plan.list}, query, gzip)
}

// countAnewLocked counts the start of a full read.
func (r *reflector) countAnewLocked(c *counter) {
	if r.mu.began && r.watches() {
		c.relists.Add(1)
	}
	r.mu.began = true
	r.observeLocked(InformerListing)
	if r.sink != nil {
		r.sink.beginList()
	}
}

// watchLocked sends a watch from the revision, or a watch that starts with all objects.
func (r *reflector) watchLocked() {
	r.mu.state = stateWatching
	query := r.selectors()
	query.Set("watch", "true")
	query.Set("timeoutSeconds", strconv.Itoa(int(r.instance.random.choose(r.plan.Timeout).Seconds())))
	if !r.plan.NoBookmarks {
		query.Set("allowWatchBookmarks", "true")
	}
	x := &exchange{counter: r.plan.watch, isWatch: true, initial: !r.mu.resumes}
	if x.initial {
		r.countAnewLocked(r.plan.watch)
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
		query.Set("allowWatchBookmarks", "true") // required
	}
	if len(r.mu.revision) > 0 && !(x.initial && r.mu.expired) {
		query.Set("resourceVersion", string(r.mu.revision))
	}
	r.sendLocked(x, query, false)
}

func (r *reflector) selectors() url.Values {
	query := url.Values{}
	if r.fields != "" {
		query.Set("fieldSelector", r.fields)
	}
	if r.labels != "" {
		query.Set("labelSelector", r.labels)
	}
	return query
}

func (r *reflector) sendLocked(x *exchange, query url.Values, gzip bool) {
	uri := r.path
	if encoded := query.Encode(); encoded != "" {
		uri += "?" + encoded
	}
	x.reflector, x.began = r, time.Now()
	r.mu.current = x
	x.stream = r.instance.client().Start(&watchclient.Request{
		Method: "GET", URI: uri, Accept: r.accept(x.isWatch), Gzip: gzip, Identity: &r.instance.identity,
	}, x)
}

func (r *reflector) accept(isWatch bool) string {
	switch {
	case r.plan.Encoding == agentprofile.EncodingProtobuf:
		return acceptProtobuf
	case r.plan.Encoding == agentprofile.EncodingMetadata && (isWatch || r.plan.Mode == agentprofile.ModeGet):
		return acceptMetadata
	case r.plan.Encoding == agentprofile.EncodingMetadata:
		return strings.ReplaceAll(acceptMetadata, "PartialObjectMetadata;", "PartialObjectMetadataList;")
	}
	return acceptJSON
}

// The pauses of client-go's reflectors.
const (
	firstPause = 800 * time.Millisecond
	maxPause   = 30 * time.Second
	// resetPauses is the time after the last pause from which pauses start at firstPause
	// again. A success in between does not reset them.
	resetPauses = 2 * time.Minute
	// maxRetries bounds the retries of a request that the server throttles. After them the request
	// counts as failed.
	maxRetries = 10
)

// nextPauseLocked counts a failure, and returns the pause after it.
func (r *reflector) nextPauseLocked() time.Duration {
	backoff := r.instance.agent.Backoff
	pause := time.Duration(backoff.First)
	limit := time.Duration(backoff.Longest)
	if pause == 0 {
		pause = firstPause
	}
	if limit == 0 {
		limit = max(maxPause, pause)
	}
	now := time.Now()
	if now.Sub(r.mu.paused) > resetPauses {
		r.mu.failures = 0
	}
	r.mu.paused = now
	pause = min(pause<<min(r.mu.failures, 16), limit)
	r.mu.failures++
	return r.instance.random.chooseBetween(pause, 2*pause)
}
