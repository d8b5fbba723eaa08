package verify

import (
	"net/http"
	"strconv"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// checkRead checks a GET or a LIST whose answer is one that promises apply to.
func (c *checker) checkRead(t *truth, r *Read) {
	if !c.checkStatus(r) {
		return
	}
	switch {
	case r.Verb == "get" && (r.ok() || r.Status == http.StatusNotFound):
		c.checkGet(t, r)
	case r.Verb == "list" && r.ok():
		c.checkList(t, r)
	}
}

// checkStatus checks that the request may have the status of its answer, and reports whether it
// may. No answer, and an answer of 429, or of 500 and above, promises nothing: it is not checked,
// and the result is false.
func (c *checker) checkStatus(r *Read) bool {
	if r.hasUnknownOutcome() || r.Status == http.StatusTooManyRequests {
		return false
	}
	c.count(Answers)
	allowed := r.ok()
	switch {
	case r.ok() && r.Err != "":
		allowed = false
	case r.Verb == "get":
		allowed = allowed || r.Status == http.StatusNotFound
	default: // changes may be compacted, also between two pages
		allowed = allowed || r.Status == http.StatusGone && (r.Class == versionExpired || r.Class == versionSeen || r.Limit > 0)
	}
	if !allowed {
		c.addViolation(Answers, r.Server, []Step{r.step(c.run)}, "status %d: %s", r.Status, r.Err)
	}
	return allowed
}

// checkGet checks that the object was as the answer shows it, at some revision that the request
// allows.
func (c *checker) checkGet(t *truth, r *Read) {
	key := watchcheck.Key{Namespace: c.run.fixture.namespace, Name: r.Name}
	var got *Object
	if r.ok() {
		if len(r.Objects) != 1 || r.Objects[0].Key != key {
			c.addViolation(Answers, r.Server, []Step{r.step(c.run)}, "the answer has %d objects, or another object", len(r.Objects))
			return
		}
		got = &r.Objects[0]
	}
	promise := NotOlder
	least := int64(0) // the oldest revision that is allowed
	var story []Step
	switch r.Class {
	case versionUnset:
		promise = Consistent
		if before := t.returnedByKey[key].newestBefore(r.Called); before != nil {
			least = t.revision(before)
			story = append(story, before.step(c.run))
		}
	case versionSeen, versionFuture:
		least, _ = strconv.ParseInt(r.Version, 10, 64)
	}
	c.count(promise)
	if !t.matchesSince(key, got, least) {
		if got != nil {
			story = append(story, t.makerSteps(c.run, version{key, got.Revision})...)
		}
		want := t.describe(key, t.stateAt(least)[key])
		story = append(story, r.step(c.run).withWant("%s, or a later version", want))
		c.addViolation(promise, r.Server, newStory(story...), "%s was not so at revision %d or later", r.Name, least)
	}
}

// checkList checks a list: its revision, its pages, and that its objects are the state at its
// revision.
func (c *checker) checkList(t *truth, r *Read) {
	c.checkListRevision(t, r)
	c.checkPages(r)
	c.count(States)
	selection := r.selection(c.run.fixture.namespace)
	if d := findDifference(t.stateAt(r.Revision), &selection, r.Objects); d != nil {
		steps := append(t.makerSteps(c.run, d.versions...), r.step(c.run).withWant("a list with %s", d.wantText(t)))
		c.addViolation(States, r.Server, newStory(steps...), "the list is not the state at revision %d: %s", r.Revision, d.text)
	}
}

// checkListRevision checks the revision of a list against the requested version and match.
// Without a version, it checks it against the writes acknowledged before.
func (c *checker) checkListRevision(t *truth, r *Read) {
	requested, _ := strconv.ParseInt(r.Version, 10, 64)
	switch {
	case r.Class == versionUnset:
		c.count(Consistent)
		before := t.returned.newestBefore(r.Called)
		if before == nil || r.Revision >= t.revision(before) {
			return
		}
		acknowledged := t.revision(before)
		story := []Step{before.step(c.run), r.step(c.run).withWant("revision %d or newer", acknowledged)}
		c.addViolation(Consistent, r.Server, story, "the list of revision %d began after revision %d was acknowledged", r.Revision, acknowledged)
	case r.Class == versionSeen && (r.Match == matchExact || r.Match == "" && r.Limit > 0 && r.Select != selectField):
		// With a limit and no match, lists are exact, except lists of one object by name.
		c.count(Exact)
		if r.Revision != requested {
			story := []Step{r.step(c.run).withWant("revision %d", requested)}
			c.addViolation(Exact, r.Server, story, "the list is of revision %d, requested was %d", r.Revision, requested)
		}
	case r.Class == versionSeen || r.Class == versionFuture:
		c.count(NotOlder)
		if r.Revision < requested {
			story := []Step{r.step(c.run).withWant("revision %d or newer", requested)}
			c.addViolation(NotOlder, r.Server, story, "the list is of revision %d, requested was %d or newer", r.Revision, requested)
		}
	}
}
