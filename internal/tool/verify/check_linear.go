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
// Whether there is one takes exponential time in the number of operations at once.
const linearTimeout = time.Minute

// linear checks that writes and reads without a version have an order that explains all
// answers, for each object. It does not look at revisions.
func (c *checker) linear(ctx context.Context, t *truth, resource string) {
	deadline := time.Now().Add(linearTimeout)
	for key, all := range c.registerOperations(t, resource) {
		c.of(Linearizable).Checked++
		left := time.Until(deadline)
		if left <= 0 || ctx.Err() != nil {
			c.of(Linearizable).Undecided++
			continue
		}
		switch porcupine.CheckOperationsTimeout(without(nil, registerState{}).model(), porcupineOperations(all), left) {
		case porcupine.Illegal:
			fewest := shrink(all)
			server, story := c.tellOrder(t, fewest)
			c.found(Linearizable, server, story, "no order of these %d operations on %s explains all answers; it has %d", len(fewest), key.Name, len(all))
		case porcupine.Unknown:
			c.of(Linearizable).Undecided++
		}
	}
}

// registerOperations are the operations on each object of a resource.
func (c *checker) registerOperations(t *truth, resource string) map[watchcheck.Key][]*registerOperation {
	operations := map[watchcheck.Key][]*registerOperation{}
	for _, w := range c.run.record.mu.writes {
		shown := w.Value != "" && t.shown(w)
		if w.Key.resource == resource && (w.done() || w.unknown() && (w.Verb == remove || shown)) {
			operations[w.Key.Key] = append(operations[w.Key.Key], &registerOperation{w.Verb, w.Value, w.unknown(), &w.Operation, w})
		}
	}
	for _, r := range c.run.record.mu.reads {
		if r.Resource != resource || r.Class != unset || r.Err != "" && r.Status != http.StatusNotFound {
			continue
		}
		c.addReads(r, func(key watchcheck.Key, value string) {
			operations[key] = append(operations[key], &registerOperation{"", value, false, &r.Operation, r})
		})
	}
	return operations
}

// addReads hands over what a read tells of each object that it selects. A list tells of all
// objects at one moment; here each object is looked at by itself.
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

// tellOrder tells operations that have no order. A read is told with the newest write that
// had been answered before: the read should have seen that one or a later one.
func (c *checker) tellOrder(t *truth, all []*registerOperation) (server int, story []Step) {
	for _, o := range all {
		step := o.by.step(c.run)
		if o.read() {
			server = o.Server
			step.Answer += fmt.Sprintf(", so the value is %q", o.value)
			if before := newestBefore(t, all, o); before != nil {
				step = step.instead("%q of revision %d, or a later one", before.value, t.revision(before.by.(*Write)))
			}
		}
		story = append(story, step)
	}
	return server, c.run.story(story...)
}

// newestBefore is the write of the highest revision that had been answered when a read was
// sent.
func newestBefore(t *truth, all []*registerOperation, read *registerOperation) (newest *registerOperation) {
	for _, o := range all {
		w, ok := o.by.(*Write)
		if ok && !o.unknown && o.Returned < read.Called && (newest == nil || t.revision(w) > t.revision(newest.by.(*Write))) {
			newest = o
		}
	}
	return newest
}
