package verify

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/millrace/millrace/internal/history"
)

// linearTimeout bounds the search for an order of the operations on one object. Whether
// there is one takes exponential time in the number of operations at once.
const linearTimeout = 20 * time.Second

// registerInput is an operation on an object as a register: a value, or "" where there is no
// object.
type registerInput struct {
	write bool
	verb  verb
	value string
}

// registerOutput is what the answer tells: the value that was read, or whether the write was
// done. Of a write of unknown outcome it tells nothing.
type registerOutput struct {
	value         string
	done, unknown bool
}

// registers is the model of one object. It knows no revisions: where a server's revisions
// are wrong, it finds what the other checks believe.
func registers() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			now, in, out := state.(string), input.(registerInput), output.(registerOutput)
			switch {
			case !in.write:
				return now == out.value, now
			case !out.done: // the object was, or was not, there; a conflict of versions says nothing
				return true, now
			case in.verb == create && !out.unknown:
				return now == "", in.value
			case (in.verb == patch || in.verb == remove) && !out.unknown:
				return now != "", in.value
			}
			return true, in.value
		},
		Equal: func(a, b any) bool { return a.(string) == b.(string) },
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%+v → %+v", input, output)
		},
	}
}

// linear checks that writes and reads without a version have an order that explains all
// answers, for each object. It does not look at revisions.
func (c *checker) linear(t *truth, resource string) {
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
			add(w.Key.Key, &w.Operation, registerInput{true, w.Verb, w.Value}, registerOutput{done: true, unknown: w.unknown()})
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
	for key, all := range operations {
		c.of(Linearizable).Checked++
		switch porcupine.CheckOperationsTimeout(registers(), all, linearTimeout) {
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
