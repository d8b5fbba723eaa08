package verify

import (
	"net/http"
	"strconv"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

func (c *checker) read(t *truth, r *Read) {
	if !c.expectedStatus(r) {
		return
	}
	switch {
	case r.Verb == "get" && (r.ok() || r.Status == http.StatusNotFound):
		c.get(t, r)
	case r.Verb == "list" && r.ok():
		c.list(t, r)
	}
}

// expectedStatus checks that the answer is one of those that the request may have. Answers
// of 429 and above tell of trouble, and promise nothing.
func (c *checker) expectedStatus(r *Read) bool {
	if r.unknown() || r.Status == http.StatusTooManyRequests {
		return false
	}
	c.of(Answers).Checked++
	allowed := r.ok()
	switch {
	case r.ok() && r.Err != "":
		allowed = false
	case r.Verb == "get":
		allowed = allowed || r.Status == http.StatusNotFound
	default: // changes may be compacted, also between two pages
		allowed = allowed || r.Status == http.StatusGone && (r.Class == gone || r.Class == known || r.Limit > 0)
	}
	if !allowed {
		c.found(Answers, r.Server, []Step{r.step(c.run)}, "status %d: %s", r.Status, r.Err)
	}
	return allowed
}

// written checks that the answer to a write is one that it may have.
func (c *checker) written(w *Write) {
	if w.troubled() {
		return
	}
	if c.of(Answers).Checked++; !w.expected() {
		c.found(Answers, w.Server, []Step{w.step(c.run)}, "status %d: %s", w.Status, w.Err)
	}
}

// get checks that the object was so, at a time that the request allows.
func (c *checker) get(t *truth, r *Read) {
	key := watchcheck.Key{Namespace: c.run.fixture.namespace, Name: r.Name}
	var got *Object
	if r.ok() {
		if len(r.Objects) != 1 || r.Objects[0].Key != key {
			c.found(Answers, r.Server, []Step{r.step(c.run)}, "the answer has %d objects, or another one", len(r.Objects))
			return
		}
		got = &r.Objects[0]
	}
	least, promise, story := int64(0), NotOlder, []Step(nil)
	switch r.Class {
	case unset:
		promise = Consistent
		if before := t.ofObjects[key].before(r.Called); before != nil {
			least, story = t.revision(before), []Step{before.step(c.run)}
		}
	case known, future:
		least, _ = strconv.ParseInt(r.Version, 10, 64)
	}
	c.of(promise).Checked++
	if !t.during(key, got, least) {
		if got != nil {
			story = append(story, t.of(c.run, version{key, got.Revision})...)
		}
		should := t.describe(key, t.state(least)[key])
		story = append(story, r.step(c.run).instead("%s, or a later version", should))
		c.found(promise, r.Server, c.run.story(story...), "%s was not so at revision %d or later", r.Name, least)
	}
}

// list checks a list: its revision, and that it is the state at that revision.
func (c *checker) list(t *truth, r *Read) {
	asked, _ := strconv.ParseInt(r.Version, 10, 64)
	switch {
	case r.Class == unset:
		c.of(Consistent).Checked++
		if before := t.returned.before(r.Called); before != nil && r.Revision < t.revision(before) {
			story := []Step{before.step(c.run), r.step(c.run).instead("revision %d or newer", t.revision(before))}
			c.found(Consistent, r.Server, story, "the list of revision %d began after revision %d was acknowledged", r.Revision, t.revision(before))
		}
	case r.Class == known && (r.Match == exact || r.Match == "" && r.Limit > 0 && r.Select != selectField):
		// With a limit and no match, lists are exact, but for those of one object.
		c.of(Exact).Checked++
		if r.Revision != asked {
			c.found(Exact, r.Server, []Step{r.step(c.run).instead("revision %d", asked)}, "the list is of revision %d, asked was for %d", r.Revision, asked)
		}
	case r.Class == known || r.Class == future:
		c.of(NotOlder).Checked++
		if r.Revision < asked {
			c.found(NotOlder, r.Server, []Step{r.step(c.run).instead("revision %d or newer", asked)}, "the list is of revision %d, asked was for %d or newer", r.Revision, asked)
		}
	}
	c.pages(r)
	c.of(States).Checked++
	start := r.start(c.run.fixture.namespace)
	if d := differs(t.state(r.Revision), &start.Selection, r.Objects); d != nil {
		steps := append(t.of(c.run, d.versions...), r.step(c.run).instead("a list with %s", d.should(t)))
		c.found(States, r.Server, c.run.story(steps...), "the list is not the state at revision %d: %s", r.Revision, d.text)
	}
}
