package verify

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/millrace/millrace/internal/history"
)

// linearTimeout bounds the search for orders of the operations on the objects of a resource.
// Whether there is one takes exponential time in the number of operations at once.
const linearTimeout = time.Minute

// registerInput is an operation on an object as a register: a value, or "" where there is no
// object.
type registerInput struct {
	// verb is "" for a read.
	verb  verb
	value string
}

// registerOutput is what the answer tells: the value that was read, or whether the write was
// done. Of a write of unknown outcome it tells nothing.
type registerOutput struct {
	value   string
	unknown bool
}

// registers is the model of one object. It knows no revisions: where a server's revisions
// are wrong, it finds what the other checks believe.
func registers() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			now, in, out := state.(string), input.(registerInput), output.(registerOutput)
			if in.verb == "" {
				return now == out.value, now
			}
			// A create needs that there is no object, a patch or a deletion that there is one.
			// Leases, unlike most kinds, may be created by an update.
			fits := in.verb == replace || (in.verb == create) == (now == "")
			switch {
			case fits:
				return true, in.value
			case out.unknown:
				return true, now // it was refused
			}
			return false, now
		},
		Equal: func(a, b any) bool { return a.(string) == b.(string) },
	}
}

// linear checks that writes and reads without a version have an order that explains all
// answers, for each object. It does not look at revisions.
func (c *checker) linear(ctx context.Context, t *truth, resource string) {
	operations := map[history.Key][]porcupine.Operation{}
	clients := map[string]int{}
	add := func(key history.Key, o *Operation, in registerInput, out registerOutput) {
		if _, ok := clients[o.Client]; !ok {
			clients[o.Client] = len(clients)
		}
		returned := int64(o.Returned)
		if out.unknown {
			returned = math.MaxInt64 // it may happen at any time, and never
		}
		operations[key] = append(operations[key], porcupine.Operation{ClientId: clients[o.Client], Input: in, Call: int64(o.Called), Output: out, Return: returned})
	}
	for _, w := range c.run.record.mu.writes {
		shown := w.Value != "" && t.shown(w)
		if w.Key.resource == resource && (w.done() || w.unknown() && (w.Verb == remove || shown)) {
			add(w.Key.Key, &w.Operation, registerInput{w.Verb, w.Value}, registerOutput{unknown: w.unknown()})
		}
	}
	for _, r := range c.run.record.mu.reads {
		if r.Resource != resource || r.Class != unset || r.Err != "" && r.Status != http.StatusNotFound {
			continue
		}
		c.addReads(r, func(key history.Key, value string) {
			add(key, &r.Operation, registerInput{}, registerOutput{value: value})
		})
	}
	deadline := time.Now().Add(linearTimeout)
	for key, all := range operations {
		c.of(Linearizable).Checked++
		left := time.Until(deadline)
		if left <= 0 || ctx.Err() != nil {
			c.of(Linearizable).Undecided++
			continue
		}
		switch porcupine.CheckOperationsTimeout(registers(), all, left) {
		case porcupine.Illegal:
			c.found(Linearizable, 0, c.tellObject(resource, key), "no order of the %d operations on %s explains all answers", len(all), key.Name)
		case porcupine.Unknown:
			c.of(Linearizable).Undecided++
		}
	}
}

// addReads hands over what a read tells of each object that it selects. A list tells of all
// objects at one moment; here each object is looked at by itself.
func (c *checker) addReads(r *Read, add func(key history.Key, value string)) {
	values := map[string]string{}
	for i := range r.Objects {
		values[r.Objects[i].Key.Name] = r.Objects[i].Value
	}
	key := func(name string) history.Key { return history.Key{Namespace: c.run.fixture.namespace, Name: name} }
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

// tellObject tells all operations on an object, in the order in which they were called.
func (c *checker) tellObject(resource string, key history.Key) (story []string) {
	for _, w := range c.run.record.mu.writes {
		if w.Key.resource == resource && w.Key.Key == key && (w.done() || w.unknown()) {
			story = append(story, c.run.tellWrite(w))
		}
	}
	return story
}
