package verify

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// Promise is what a check checks. docs/verify.md explains each.
type Promise string

// The promises, in the order of the report.
const (
	OneHistory   Promise = "one history"
	WriteOrder   Promise = "writes in order"
	Conditional  Promise = "no lost update"
	Kept         Promise = "acknowledged writes are kept"
	Consistent   Promise = "reads without a version are consistent"
	Linearizable Promise = "linearizable, without revisions"
	NotOlder     Promise = "reads are not older than asked"
	Exact        Promise = "exact reads are of that revision"
	States       Promise = "lists are states"
	Pages        Promise = "pages are of one revision and size"
	Watching     Promise = "watches"
	Fresh        Promise = "watches begin with the newest state"
	Shown        Promise = "servers show the last write"
	Answers      Promise = "answers are those that the request has"
)

// Violation is one case in which a server broke a promise.
type Violation struct {
	Promise Promise `json:"promise"`
	Server  string  `json:"server"`
	Summary string  `json:"summary"`
	// Story are the operations that show it, in the order in which they were sent.
	Story []Step `json:"story,omitempty"`
}

// Check is the result for one promise.
type Check struct {
	Promise Promise `json:"promise"`
	// Checked is how many cases there were. Undecided ones took too long to check.
	Checked    int         `json:"checked"`
	Undecided  int         `json:"undecided,omitempty"`
	Violations []Violation `json:"violations,omitempty"`
}

type checker struct {
	run    *run
	truths map[string]*truth
	checks map[Promise]*Check
}

// maxViolations is how many violations of a promise are told. More are counted only.
const maxViolations = 20

func (c *checker) of(p Promise) *Check {
	if c.checks[p] == nil {
		c.checks[p] = &Check{Promise: p}
	}
	return c.checks[p]
}

func (c *checker) found(p Promise, server int, story []Step, format string, args ...any) {
	check := c.of(p)
	check.Violations = append(check.Violations, Violation{p, c.run.servers[server].base, fmt.Sprintf(format, args...), story})
}

func (r *run) check(ctx context.Context) *Report {
	c := &checker{run: r, truths: map[string]*truth{}, checks: map[Promise]*Check{}}
	for i := range r.fixture.resources {
		name := r.fixture.resources[i].name
		c.truths[name] = r.truthOf(name)
	}
	for name, t := range c.truths {
		c.history(t)
		c.order(t, name)
		c.conditions(t, name)
		c.linear(ctx, t, name)
	}
	for _, w := range r.record.mu.writes {
		c.written(w)
	}
	reads := slices.SortedStableFunc(slices.Values(r.record.mu.reads), func(a, b *Read) int { return cmp.Compare(a.Revision, b.Revision) })
	for _, read := range reads {
		c.read(c.truths[read.Resource], read)
	}
	for _, w := range r.record.mu.watches {
		c.watch(c.truths[w.Resource], w)
	}
	c.settled()
	return r.report(c)
}

// history checks that all answers tell one history.
func (c *checker) history(t *truth) {
	c.of(OneHistory).Checked += len(t.values)
	for _, x := range t.conflicts {
		story := c.run.story(x.one.by.step(c.run), x.other.by.step(c.run).instead("%s is %s", x.version, x.one))
		c.found(OneHistory, 0, story, "%s is %s, and another answer says that it is %s", x.version, x.one, x.other)
	}
	for i := range t.Changes {
		change := &t.Changes[i]
		if change.After == nil && change.Before == nil {
			c.found(OneHistory, 0, t.of(c.run, version{change.Key, change.Revision}), "%s was deleted at revision %d, when there was none", change.Key.Name, change.Revision)
		}
	}
}

// order checks that a write that was called after another one had returned has a higher
// revision, and that each acknowledged write is part of the history.
func (c *checker) order(t *truth, resource string) {
	type moment struct {
		write    *Write
		revision int64
	}
	var done []moment
	for _, w := range c.run.record.mu.writes {
		if w.Key.resource != resource || !w.done() {
			continue
		}
		c.of(Kept).Checked++
		revision := t.revision(w)
		if revision == 0 && (t.firsts[w.UID] == 0 || c.run.record.gaps.Load() > 0) {
			c.of(Kept).Undecided++ // nothing tells which object it was, or followers missed something
			continue
		}
		if revision == 0 {
			c.found(Kept, w.Server, []Step{w.step(c.run).instead("a deletion that watches are told of")}, "no watch was told of a deletion of %s", w.Key)
			continue
		}
		done = append(done, moment{w, revision})
	}
	c.of(WriteOrder).Checked += len(done)
	for _, m := range done {
		if before := t.returned.before(m.write.Called); before != nil && t.revision(before) >= m.revision {
			story := []Step{before.step(c.run), m.write.step(c.run).instead("a revision above %d", t.revision(before))}
			c.found(WriteOrder, m.write.Server, story, "%s at revision %d was called after revision %d was acknowledged", m.write.Key, m.revision, t.revision(before))
		}
	}
}

// conditions checks that a write that depends on a version followed that version, that only
// what was not there was created, and that only what was there was changed.
func (c *checker) conditions(t *truth, resource string) {
	for i := range t.Changes {
		change := &t.Changes[i]
		if change.After == nil {
			continue
		}
		w := t.writes[version{change.Key, change.Revision}]
		if w == nil || w.Key.resource != resource {
			continue
		}
		c.of(Conditional).Checked++
		refuse := func(format string, args ...any) {
			story := append(t.of(c.run, t.versionsBefore(change, w)...), w.step(c.run).instead("refused"))
			c.found(Conditional, w.Server, c.run.story(story...), format, args...)
		}
		switch {
		case w.Verb == create && change.Before != nil:
			refuse("%s was created at revision %d, though it was there since %d", w.Key, change.Revision, change.Before.Revision)
		case w.Verb == patch && change.Before == nil:
			refuse("%s was changed at revision %d, though it was not there", w.Key, change.Revision)
		case w.Verb == replace && w.Status == http.StatusOK && (change.Before == nil || fmt.Sprint(change.Before.Revision) != w.Expected):
			refuse("%s was updated at revision %d on condition of %s, which it was not", w.Key, change.Revision, w.Expected)
		}
	}
}

// versionsBefore are the version that a change replaced, and the one that its write expected.
func (t *truth) versionsBefore(change *watchcheck.Change, w *Write) (all []version) {
	if change.Before != nil {
		all = append(all, version{change.Key, change.Before.Revision})
	}
	if expected, err := strconv.ParseInt(w.Expected, 10, 64); err == nil {
		all = append(all, version{change.Key, expected})
	}
	return all
}
