package verify

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// checkWrite adds a violation if the verb of a write may not have the status of its answer. It skips
// inconclusive writes.
func (c *checker) checkWrite(w *Write) {
	if w.isInconclusive() {
		return
	}
	if c.count(Answers); !w.isExpected() {
		c.addViolation(Answers, w.Server, []Step{w.step(c.run)}, "status %d: %s", w.Status, w.Err)
	}
}

// firstServer is the server of violations for which no single server is to blame: the first server.
const firstServer = 0

// checkHistory checks that all answers agree on one history.
func (c *checker) checkHistory(t *truth) {
	c.check(OneHistory).Checked += len(t.values)
	for _, x := range t.conflicts {
		story := newStory(x.one.source.step(c.run), x.other.source.step(c.run).withWant("%s is %s", x.version, x.one))
		c.addViolation(OneHistory, firstServer, story, "%s is %s, and another answer says %s", x.version, x.one, x.other)
	}
	for i := range t.Changes {
		change := &t.Changes[i]
		if change.After == nil && change.Before == nil {
			story := t.makerSteps(c.run, version{change.Key, change.Revision})
			c.addViolation(OneHistory, firstServer, story, "%s was deleted at revision %d, when there was none", change.Key.Name, change.Revision)
		}
	}
}

// checkOrder checks that each acknowledged write is part of the history. It also checks that a write
// has a higher revision than the writes that were answered before it was sent.
//
// Only a deletion can be missing: its revision is in the events of watches alone. If no answer
// has shown the deleted object, or a follower missed events, the case is undecided.
func (c *checker) checkOrder(t *truth, resource string) {
	var ordered []*Write
	for _, w := range c.run.record.mu.writes {
		if w.Key.resource != resource || !w.isAcknowledged() {
			continue
		}
		c.count(Kept)
		switch {
		case t.revision(w) > 0:
			ordered = append(ordered, w)
		case t.firsts[w.UID] == 0 || c.run.record.gaps.Load() > 0:
			c.check(Kept).Undecided++
		default:
			c.addViolation(Kept, w.Server, []Step{w.step(c.run).withWant("a DELETED event in watches")},
				"no watch delivered the deletion of %s", w.Key)
		}
	}
	c.check(WriteOrder).Checked += len(ordered)
	for _, w := range ordered {
		before := t.returned.newestBefore(w.Called)
		if before == nil || t.revision(before) < t.revision(w) {
			continue
		}
		acknowledged := t.revision(before)
		story := []Step{before.step(c.run), w.step(c.run).withWant("a revision above %d", acknowledged)}
		c.addViolation(WriteOrder, w.Server, story,
			"%s at revision %d was called after revision %d was acknowledged", w.Key, t.revision(w), acknowledged)
	}
}

// checkConditions checks that an update on condition of a version followed that version. It
// also checks that no object was created while it existed, and that no absent object was changed.
func (c *checker) checkConditions(t *truth, resource string) {
	for i := range t.Changes {
		change := &t.Changes[i]
		if change.After == nil {
			continue
		}
		w := t.writes[version{change.Key, change.Revision}]
		if w == nil || w.Key.resource != resource {
			continue
		}
		c.count(Conditional)
		wantRefusal := func(format string, args ...any) {
			story := append(t.makerSteps(c.run, versionsBefore(change, w)...), w.step(c.run).withWant("refused"))
			c.addViolation(Conditional, w.Server, newStory(story...), format, args...)
		}
		switch {
		case w.Verb == create && change.Before != nil:
			wantRefusal("%s was created at revision %d, though it had existed since %d", w.Key, change.Revision, change.Before.Revision)
		case w.Verb == patch && change.Before == nil:
			wantRefusal("%s was changed at revision %d, though it did not exist", w.Key, change.Revision)
		// A PUT of a lease that does not exist creates it, with 201.
		case w.Verb == replace && w.Status == http.StatusOK && (change.Before == nil || fmt.Sprint(change.Before.Revision) != w.Expected):
			wantRefusal("%s was updated at revision %d on condition of version %s, though it had another version", w.Key, change.Revision, w.Expected)
		}
	}
}

// versionsBefore returns the version that a change replaced, and the version that its write expected,
// as far as there are such versions.
func versionsBefore(change *watchcheck.Change, w *Write) (all []version) {
	if change.Before != nil {
		all = append(all, version{change.Key, change.Before.Revision})
	}
	if expected, err := strconv.ParseInt(w.Expected, 10, 64); err == nil {
		all = append(all, version{change.Key, expected})
	}
	return all
}
