package living

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"regexp"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
	"github.com/millrace/millrace/test/support/changingupstream"
)

// grace is how long an answer may still be of a definition that the upstream has left. A
// replica learns of changes by a watch.
const grace = 1500 * time.Millisecond

// reconnect is how long behind an outage of the upstream a replica may know nothing new: its
// feeds come back at random times.
const reconnect = 20 * time.Second

const (
	// outageGrace is how long behind an outage requests may fail.
	outageGrace = 3 * time.Second
	// startGrace is how long behind an outage nobody may listen, at a replica or at the one behind
	// it: a replica starts again when its upstream has become another version.
	startGrace = 15 * time.Second
	// versionGrace is how long a replica by etcd may not know of another version: it asks each 2 s.
	versionGrace = 5 * time.Second
)

// excused says that a request may have failed because of an outage.
func (r *reader) excused(a *changingupstream.Answer) bool {
	return r.front.excuses(a, &r.script.Outages)
}

// excuses says that a request to the front may have failed because of outages.
func (f *front) excuses(a *changingupstream.Answer, outages *changingupstream.Outages) bool {
	grace := outageGrace
	if errors.Is(a.Err, syscall.ECONNREFUSED) || f.name == "depth-2" {
		grace = startGrace
	}
	return f.mayFail(a.Began) || outages.Overlap(a.Began, a.Ended, grace)
}

// requestTimeout bounds GET and LIST.
const requestTimeout = 40 * time.Second

// reader is a client of one front that reads what a script changes.
type reader struct {
	*changingupstream.Client
	script *changingupstream.Script
	front  *front
	tally  *tally
	random *rand.Rand
	// revisions are those of the last list of each resource.
	revisions map[*changingupstream.Resource]int64
	watches   *watches
	// places bounds the open watches.
	places chan struct{}
}

func (r *reader) pick(from ...string) string { return from[r.random.IntN(len(from))] }

// run sends requests until the context ends.
func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		resource := r.script.Pick(r.random)
		t := target{Resource: resource, version: "v1"}
		if resource.Definition != nil {
			t.version = r.pick("v1", "v1", "v2", "v2", "v2", "v3")
		}
		if now := resource.Now(); !now.ClusterScoped && r.random.IntN(2) == 0 || resource.Definition == nil {
			t.namespace = r.pick(r.script.Namespaces...)
		}
		switch r.random.IntN(5) {
		case 0, 1:
			if t.namespace == "" && !resource.Now().ClusterScoped {
				t.namespace = r.pick(r.script.Namespaces...)
			}
			r.get(ctx, t)
		case 2, 3:
			r.list(ctx, t)
		case 4:
			r.watch(t)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(r.random.IntN(40)) * time.Millisecond):
		}
	}
}

// target is a collection.
type target struct {
	*changingupstream.Resource
	version, namespace string
}

func (t target) path() string { return t.Collection(t.version, t.namespace) }

// send sends a request that is answered at once.
func (r *reader) send(ctx context.Context, path, accept string) *changingupstream.Answer {
	// The end of the script does not cancel a request: all of them are to be answered.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	a := r.Send(ctx, changingupstream.Call{Method: http.MethodGet, Path: path, Accept: accept})
	r.tally.add(func(t *tallyCounts) {
		t.requests++
		if a.PassedOn() {
			t.passed++
		} else if a.Status == http.StatusOK {
			t.here++
		}
	})
	return a
}

// between returns the generations that an answer may be of.
func (r *reader) between(t target, sent, came time.Time) []changingupstream.Generation {
	good := grace
	if r.script.Outages.Overlap(sent, came, reconnect) {
		good = reconnect
	}
	if t.Definition == nil && r.front.name == "etcd" {
		among := r.script.Eras.AnswerGenerations(sent, came, versionGrace)
		for i := range among {
			among[i].Last = 0
		}
		return among
	}
	if t.Definition == nil {
		return r.script.Eras.AnswerGenerations(sent, came, good)
	}
	return t.Definition.AnswerGenerations(sent, came, good)
}

// betweenEvents returns the generations that an event may be of.
func (r *reader) betweenEvents(t target, sent, came time.Time) []changingupstream.Generation {
	if t.Definition == nil || r.script.Outages.Overlap(sent, came, reconnect) {
		return r.between(t, sent, came)
	}
	return t.Definition.EventGenerations(sent, came, grace)
}

// foreign says whether an extension may have been asked in one of some generations, and whether
// it may have been one that does not answer.
func (t target) foreign(among []changingupstream.Generation) (foreign, broken bool) {
	for _, g := range among {
		if g.Foreign == t.version {
			foreign, broken = true, broken || g.Broken
		}
	}
	return foreign, broken
}

// serves says whether a version was served in one of some generations, and whether it was not
// served in one.
func (t target) serves(among []changingupstream.Generation) (served, absent bool) {
	for _, g := range among {
		if t.Definition == nil || g.Serves(t.version, t.namespace != "") {
			served = true
		} else {
			absent = true
		}
	}
	return served, absent
}

// names are what differs between two errors of one kind.
var names = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|s\d+\.living\.example\.com|living-\d+-[ab]|[0-9]+|"[a-e](=1)?"`)

// refused judges an answer that is no success. found says whether the answer's 404 is right.
func (r *reader) refused(t target, path string, a *changingupstream.Answer, missing bool) {
	among := r.between(t, a.Began, a.Ended)
	_, absent := t.serves(among)
	if a.Status == http.StatusNotFound && (absent || missing) {
		return
	}
	// An extension may hang, and has fewer verbs and names.
	if foreign, broken := t.foreign(among); foreign && (broken || a.Foreign()) {
		return
	}
	if r.excused(a) {
		return
	}
	if a.Err != nil {
		r.tally.find(unanswered, "%s: %v", path, a.Err)
		return
	}
	what := fmt.Sprintf("%d %s", a.Status, names.ReplaceAllString(a.Message(), "*"))
	if len(among) > 1 {
		what += " (during a change)"
	}
	if a.PassedOn() {
		what += " (passed on)"
	}
	r.tally.status(what)
	if a.Status == http.StatusNotFound {
		r.tally.find("404 for what is there", "%s, %s: %s; %s", path, times(a), a.Message(), generations(among))
	}
}

// isStale says that a replica calls its answer older than it might be.
func isStale(a *changingupstream.Answer) bool { return a.Header.Get("X-Millrace-Stale") != "" }

func times(a *changingupstream.Answer) string {
	return a.Began.Format("04:05.000") + " to " + a.Ended.Format("04:05.000")
}

func generations(among []changingupstream.Generation) string {
	text := "generations"
	for _, g := range among {
		text += fmt.Sprintf(" %d (gone %v, foreign %q, serves %v, begun %s, ended %s)", g.Shape.Generation, g.Gone, g.Foreign, g.ServedVersions(), g.Began.Format("04:05.000"), g.Ended.Format("04:05.000"))
	}
	return text
}

// isForeign says that an extension has answered, and judges whether it might.
func (r *reader) isForeign(t target, path string, a *changingupstream.Answer, among []changingupstream.Generation) bool {
	if !a.Foreign() {
		return false
	}
	if foreign, _ := t.foreign(among); !foreign {
		r.tally.find("answer of an extension that serves the version no more", "%s, %s; %s", path, times(a), generations(among))
	}
	return true
}

// judgeGeneration judges of which state of the definition an answer says to be.
func (r *reader) judgeGeneration(t target, path string, a *changingupstream.Answer, among []changingupstream.Generation) {
	served, _ := t.serves(among)
	if !served {
		r.tally.find("answer in a version that is not served", "%s, %s, %s", path, times(a), generations(among))
		return
	}
	if t.Definition == nil {
		return
	}
	said, found := a.Generation(), false
	lag := time.Duration(math.MaxInt64)
	for _, g := range among {
		if g.Gone || g.Shape.Generation != said || g.Foreign == t.version {
			continue
		}
		found = true
		if g.Ended.IsZero() {
			lag = 0
		}
		lag = min(lag, a.Began.Sub(g.Ended))
	}
	if found {
		r.tally.add(func(tally *tallyCounts) { tally.lag = max(tally.lag, lag) })
		return
	}
	r.tally.find("answer of another state of the definition", "%s, %s: generation %d, %v after its end; %s", path, times(a), said, a.Began.Sub(t.Definition.EndTime(said)), generations(among))
}

// compare compares an object with the upstream's.
func (r *reader) compare(ctx context.Context, t target, path string, among []changingupstream.Generation, o *changingupstream.Object) {
	err := r.script.Compare(context.WithoutCancel(ctx), t.Resource, t.version, among, o)
	switch {
	case errors.Is(err, changingupstream.ErrUnknown):
		r.tally.add(func(t *tallyCounts) { t.unknown++ })
		r.tally.status("unknown: " + names.ReplaceAllString(err.Error(), "*"))
	case err != nil:
		origins := "it is that of no other generation"
		for _, g := range r.script.Origins(t.Resource, t.version, o) {
			origins = fmt.Sprintf("it is that of generation %d, which has ended %v ago", g, time.Since(t.Definition.EndTime(g)))
		}
		r.tally.find("another object than the upstream's", "%s: %s/%s at %d: %v; %s; %s", path, o.Namespace, o.Name, o.Revision, err, generations(among), origins)
	default:
		r.tally.add(func(t *tallyCounts) { t.objects++ })
	}
}

// get reads one object.
func (r *reader) get(ctx context.Context, t target) {
	name := t.Objects()[r.random.IntN(len(t.Objects()))]
	before := t.Life(t.namespace, name)
	path, query := t.path()+"/"+name, ""
	asked := int64(0)
	switch r.random.IntN(3) {
	case 0:
		query = "?resourceVersion=0"
	case 1:
		if asked = r.revisions[t.Resource]; asked > 0 {
			query = fmt.Sprintf("?resourceVersion=%d", asked)
		}
	}
	path += query
	accept := r.form(t)
	a := r.send(ctx, path, accept)
	after := t.Life(t.namespace, name)
	if a.Status != http.StatusOK || a.Err != nil {
		there := query == "" && !isStale(a) && !before.Deleted && !before.Deleting && before.UID == after.UID && !after.Deleting
		r.refused(t, path, a, !there)
		return
	}
	among := r.between(t, a.Began, a.Ended)
	if r.isForeign(t, path, a, among) {
		return
	}
	r.judgeGeneration(t, path, a, among)
	content, err := asJSON(a.Body, accept)
	var o *changingupstream.Object
	if err == nil {
		o, err = changingupstream.NewObject(content)
	}
	if err != nil {
		r.tally.find("answer that cannot be read", "%s: %v: %.300s", path, err, a.Body)
		return
	}
	if query == "" && !isStale(a) && (o.UID == before.UID && (before.Deleted || o.Revision < before.Revision)) {
		r.tally.find("GET that is older than a write before it", "%s, %s: %d of %s, and the last write was at %+v", path, times(a), o.Revision, o.UID, before)
	}
	r.compare(ctx, t, path, among, o)
}

// list reads a collection.
func (r *reader) list(ctx context.Context, t target) {
	acknowledged, last := t.LastAcknowledged(), r.revisions[t.Resource]
	path := t.path()
	least, exact, limit := int64(0), int64(0), 0
	switch r.random.IntN(5) {
	case 0, 1:
		path += "?"
		least = acknowledged
	case 2:
		path += "?resourceVersion=0"
	case 3:
		path += fmt.Sprintf("?resourceVersion=%d", last)
		least = last
	case 4:
		if last > 0 {
			path += fmt.Sprintf("?resourceVersionMatch=Exact&resourceVersion=%d", last)
			exact = last
		} else {
			path += "?"
		}
	}
	if r.random.IntN(4) == 0 && exact == 0 {
		limit = 3
		path += "&limit=3"
	}
	path += "&includeObject=Object" // of tables
	selection := watchcheck.Selection{Namespace: t.namespace}
	r.selectLabels(&path, &selection)
	p := &pageOf{accept: r.listForm(t), path: path, selection: selection, least: least, exact: exact, limit: limit}
	for page := path; page != ""; {
		page = r.page(ctx, t, page, p)
	}
}
