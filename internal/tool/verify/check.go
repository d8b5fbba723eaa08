package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Promise names a promise of the API, as reports show it. docs/verify.md explains each.
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

// Violation is one case in which a server did not keep a promise.
type Violation struct {
	Promise Promise `json:"promise"`
	Server  string  `json:"server"`
	Summary string  `json:"summary"`
	// Story has the steps that show the violation, in the order in which they were sent. It may
	// be empty.
	Story []Step `json:"story,omitempty"`
}

// Check is the result for one promise.
type Check struct {
	Promise Promise `json:"promise"`
	// Checked is the number of cases. Undecided is the number of cases whose check took too long,
	// or whose outcome is not known.
	Checked    int         `json:"checked"`
	Undecided  int         `json:"undecided,omitempty"`
	Violations []Violation `json:"violations,omitempty"`
}

// checker checks the record of a run. Each of its methods checks one or more promises, and adds to
// the results in checks.
type checker struct {
	run    *run
	truths map[string]*truth // by resource
	checks map[Promise]*Check
}

// maxViolations bounds the violations of a promise that a report for people shows. The report has the
// number of further violations.
const maxViolations = 20

// check returns the result for a promise, to be added to.
func (c *checker) check(p Promise) *Check {
	if c.checks[p] == nil {
		c.checks[p] = &Check{Promise: p}
	}
	return c.checks[p]
}

// count adds a case that was checked.
func (c *checker) count(p Promise) { c.check(p).Checked++ }

// addViolation adds a violation by a server, which is given by its index. The format and its
// arguments make the summary.
func (c *checker) addViolation(p Promise, server int, story []Step, format string, args ...any) {
	check := c.check(p)
	check.Violations = append(check.Violations, Violation{p, c.run.servers[server].base, fmt.Sprintf(format, args...), story})
}

// checkRecord runs all checks on the record. No client may change the record any more. The end of the
// context ends the search for linear orders.
func (r *run) checkRecord(ctx context.Context) *Report {
	c := &checker{run: r, truths: map[string]*truth{}, checks: map[Promise]*Check{}}
	for i := range r.fixture.resources {
		name := r.fixture.resources[i].name
		c.truths[name] = r.newTruth(name)
	}
	for name, t := range c.truths {
		c.checkHistory(t)
		c.checkOrder(t, name)
		c.checkConditions(t, name)
		c.checkLinear(ctx, t, name)
	}
	for _, w := range r.record.mu.writes {
		c.checkWrite(w)
	}
	// truth.stateAt is cheap for rising revisions.
	reads := slices.SortedStableFunc(slices.Values(r.record.mu.reads), func(a, b *Read) int { return cmp.Compare(a.Revision, b.Revision) })
	for _, read := range reads {
		c.checkRead(c.truths[read.Resource], read)
	}
	for _, w := range r.record.mu.watches {
		c.checkWatch(c.truths[w.Resource], w)
	}
	c.checkShown()
	return r.report(c)
}
