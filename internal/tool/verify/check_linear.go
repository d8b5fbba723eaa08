package verify

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// linearTimeout bounds the search for orders of the operations on the objects of a resource.
// The search takes exponential time in the number of concurrent operations.
const linearTimeout = time.Minute

// checkLinear checks for each object that its writes and its reads without a version have an
// order that explains all answers. It does not look at revisions.
func (c *checker) checkLinear(ctx context.Context, t *truth, resource string) {
	deadline := time.Now().Add(linearTimeout)
	for key, all := range c.registerOperations(t, resource) {
		c.count(Linearizable)
		left := time.Until(deadline)
		if left <= 0 || ctx.Err() != nil {
			c.check(Linearizable).Undecided++
			continue
		}
		switch porcupine.CheckOperationsTimeout(newInterference(nil, registerState{}).model(), porcupineOperations(all), left) {
		case porcupine.Illegal:
			fewest := shrink(all)
			server, story := c.orderSteps(t, fewest)
			c.addViolation(Linearizable, server, story,
				"no order of these %d operations on %s explains all answers; it has %d", len(fewest), key.Name, len(all))
		case porcupine.Unknown:
			c.check(Linearizable).Undecided++
		}
	}
}

// registerOperations returns the operations on each object of a resource. It leaves out writes
// that were refused, and writes of unknown outcome whose value no answer shows. A deletion of
// unknown outcome has no value, and is always among them.
func (c *checker) registerOperations(t *truth, resource string) map[watchcheck.Key][]*registerOperation {
	operations := map[watchcheck.Key][]*registerOperation{}
	for _, w := range c.run.record.mu.writes {
		shown := w.Value != "" && t.isShown(w)
		if w.Key.resource == resource && (w.isAcknowledged() || w.hasUnknownOutcome() && (w.Verb == remove || shown)) {
			operations[w.Key.Key] = append(operations[w.Key.Key], &registerOperation{w.Verb, w.Value, w.hasUnknownOutcome(), &w.Operation, w})
		}
	}
	for _, r := range c.run.record.mu.reads {
		if r.Resource != resource || r.Class != versionUnset || r.Err != "" && r.Status != http.StatusNotFound {
			continue
		}
		c.addReads(r, func(key watchcheck.Key, value string) {
			operations[key] = append(operations[key], &registerOperation{"", value, false, &r.Operation, r})
		})
	}
	return operations
}

// addReads calls add with the value that a read shows of each object that it selects: "" for an
// absent object. A list shows all objects at one moment, but each object is checked by itself. A
// list by label is not used.
func (c *checker) addReads(r *Read, add func(key watchcheck.Key, value string)) {
	values := map[string]string{}
	for i := range r.Objects {
		values[r.Objects[i].Key.Name] = r.Objects[i].Value
	}
	key := func(name string) watchcheck.Key {
		return watchcheck.Key{Namespace: c.run.fixture.namespace, Name: name}
	}
	switch {
	case r.Verb == "get" && r.Status == http.StatusNotFound:
		add(key(r.Name), "")
	case !r.ok():
	case r.Verb == "get" || r.Select == selectField:
		add(key(r.Name), values[r.Name])
	case r.Select == selectAll:
		for i := range c.run.cfg.Keys {
			add(key(keyName(i)), values[keyName(i)])
		}
	}
}

// orderSteps returns the story of operations that have no order, and the server that answered
// the last of its reads. The step of a read names the newest write that had been answered
// before: the read should have shown that value, or a later one.
func (c *checker) orderSteps(t *truth, all []*registerOperation) (server int, story []Step) {
	for _, o := range all {
		step := o.source.step(c.run)
		if o.isRead() {
			server = o.Server
			step.Answer += fmt.Sprintf(", so the value is %q", o.value)
			if before := newestWriteBefore(t, all, o); before != nil {
				step = step.withWant("%q of revision %d, or a later one", before.value, t.revision(before.source.(*Write)))
			}
		}
		story = append(story, step)
	}
	return server, newStory(story...)
}

// newestWriteBefore returns the write of the highest revision among all that had been answered
// when a read was sent, nil if there is none.
func newestWriteBefore(t *truth, all []*registerOperation, read *registerOperation) (newest *registerOperation) {
	for _, o := range all {
		w, ok := o.source.(*Write)
		if ok && !o.unknown && o.Returned < read.Called && (newest == nil || t.revision(w) > t.revision(newest.source.(*Write))) {
			newest = o
		}
	}
	return newest
}
