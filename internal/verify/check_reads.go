package verify

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/millrace/millrace/internal/history"
)

// read checks the answer to a GET or LIST.
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
		c.found(Answers, r.Server, []string{c.run.tellRead(r)}, "status %d: %s", r.Status, r.Err)
	}
	return allowed
}

// get checks that the object was so, at a time that the request allows.
func (c *checker) get(t *truth, r *Read) {
	key := history.Key{Namespace: c.run.fixture.namespace, Name: r.Name}
	var got *Object
	if r.ok() {
		if len(r.Objects) != 1 || r.Objects[0].Key != key {
			c.found(Answers, r.Server, []string{c.run.tellRead(r)}, "the answer has %d objects, or another one", len(r.Objects))
			return
		}
		got = &r.Objects[0]
	}
	least, promise, story := int64(0), NotOlder, []string(nil)
	switch r.Class {
	case unset:
		promise = Consistent
		if before := t.ofObjects[key].before(r.Called); before != nil {
			least, story = t.revision(before), []string{c.run.tellWrite(before)}
		}
	case known, future:
		least, _ = strconv.ParseInt(r.Version, 10, 64)
	}
	c.of(promise).Checked++
	if !t.during(key, got, least) {
		c.found(promise, r.Server, append(story, c.run.tellRead(r)), "%s was not so at revision %d or later", r.Name, least)
	}
}

// list checks a list: its revision, and that it is the state at that revision.
func (c *checker) list(t *truth, r *Read) {
	asked, _ := strconv.ParseInt(r.Version, 10, 64)
	switch {
	case r.Class == unset:
		c.of(Consistent).Checked++
		if before := t.returned.before(r.Called); before != nil && r.Revision < t.revision(before) {
			c.found(Consistent, r.Server, []string{c.run.tellWrite(before), c.run.tellRead(r)}, "the list of revision %d began after revision %d was acknowledged", r.Revision, t.revision(before))
		}
	case r.Class == known && (r.Match == exact || r.Match == "" && r.Limit > 0 && r.Select != selectField):
		// With a limit and no match, lists are exact, but for those of one object.
		c.of(Exact).Checked++
		if r.Revision != asked {
			c.found(Exact, r.Server, []string{c.run.tellRead(r)}, "the list is of revision %d, asked was for %d", r.Revision, asked)
		}
	case r.Class == known || r.Class == future:
		c.of(NotOlder).Checked++
		if r.Revision < asked {
			c.found(NotOlder, r.Server, []string{c.run.tellRead(r)}, "the list is of revision %d, asked was for %d or newer", r.Revision, asked)
		}
	}
	if len(r.PageRevisions) > 1 {
		c.of(Pages).Checked++
		for _, revision := range r.PageRevisions {
			if revision != r.Revision {
				c.found(Pages, r.Server, []string{c.run.tellRead(r)}, "the pages are of revisions %v", r.PageRevisions)
				break
			}
		}
	}
	c.of(States).Checked++
	start := r.start(c.run.fixture.namespace)
	if difference := differs(t.state(r.Revision), &start.Selection, r.Objects); difference != "" {
		c.found(States, r.Server, []string{c.run.tellRead(r)}, "the list is not the state at revision %d: %s", r.Revision, difference)
	}
}

// differs tells in what a list differs from what is selected of a state.
func differs(all map[history.Key]*history.State, selection *history.Selection, got []Object) string {
	want := maps.Clone(all)
	maps.DeleteFunc(want, func(k history.Key, state *history.State) bool { return !selection.Matches(k, state) })
	seen := map[history.Key]bool{}
	for i := range got {
		o := &got[i]
		state := want[o.Key]
		switch {
		case seen[o.Key]:
			return fmt.Sprintf("%s comes twice", o.Key.Name)
		case state == nil:
			return fmt.Sprintf("it has %s of revision %d, which is not selected or was not there", o.Key.Name, o.Revision)
		case state.Revision != o.Revision:
			return fmt.Sprintf("it has %s of revision %d, which is of %d", o.Key.Name, o.Revision, state.Revision)
		}
		seen[o.Key] = true
	}
	for key, state := range want {
		if !seen[key] {
			return fmt.Sprintf("it lacks %s of revision %d", key.Name, state.Revision)
		}
	}
	return ""
}

// tellRead tells what a read was answered.
func (r *run) tellRead(read *Read) string {
	outcome := fmt.Sprintf("status %d", read.Status)
	switch {
	case read.Err != "":
		outcome += ", " + read.Err
	case read.Verb == "list":
		outcome += fmt.Sprintf(", revision %d, %d objects", read.Revision, len(read.Objects))
	case read.ok() && len(read.Objects) == 1:
		outcome += fmt.Sprintf(", %s of revision %d", read.Objects[0].Value, read.Objects[0].Revision)
	}
	return r.tellOperation(&read.Operation, read.text(), outcome)
}

// text is the request as a person writes it.
func (req *Request) text() string {
	query, _ := url.QueryUnescape(req.query().Encode())
	what := req.Verb + " " + req.Resource
	if req.Verb == "get" {
		what += "/" + req.Name
	}
	if query != "" {
		what += "?" + query
	}
	if req.Form == formMetadata || req.Form == formTable {
		what += " as " + string(req.Form)
	}
	return what
}
