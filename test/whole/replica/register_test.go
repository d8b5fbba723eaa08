package replica

import (
	"fmt"
	"math"
	"testing"

	"github.com/anishathalye/porcupine"
)

// verb is what an operation does with a register, which is an object with one value.
type verb string

const (
	creates verb = "create"
	updates verb = "update"
	deletes verb = "delete"
	reads   verb = "read"
)

// outcome is what a server answered to an operation.
type outcome string

const (
	done outcome = "done"
	// absent: there was no such object.
	absent outcome = "absent"
	// present: there was one already.
	present outcome = "present"
	// unknown: no answer came. The operation may take effect at any time, or never.
	unknown outcome = "unknown"
)

// registerCall is an operation on one register.
type registerCall struct {
	key   string
	verb  verb
	value string // of a create or an update
}

// registerReply is the answer to an operation.
type registerReply struct {
	outcome outcome
	value   string // of a read
}

// registers is the model of an API server: each key is a register that is linearizable by
// itself. The state is the object's value, "" if there is none.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, operation := range history {
			key := operation.Input.(registerCall).key
			byKey[key] = append(byKey[key], operation)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		return step(state.(string), input.(registerCall), output.(registerReply))
	},
	DescribeOperation: func(input, output any) string {
		call, reply := input.(registerCall), output.(registerReply)
		return fmt.Sprintf("%s %s%s: %s%s", call.verb, call.key, call.value, reply.outcome, reply.value)
	},
}

// step returns whether an answer is right in a state, and the state behind it. A write
// without an answer is right in every state. It ends behind all others, so it need not have
// been seen by anybody.
func step(state string, call registerCall, reply registerReply) (right bool, next string) {
	exists := state != ""
	switch reply.outcome {
	case absent:
		return !exists, state
	case present:
		return exists, state
	}
	possible := exists
	if next = call.value; call.verb == creates {
		possible = !exists
	}
	switch {
	case call.verb == reads:
		return state == reply.value, state
	case possible:
		return true, next
	}
	return reply.outcome == unknown, state
}

// TestRegisters checks the model with histories of one register. Times are of calls and
// returns.
func TestRegisters(t *testing.T) {
	at := func(called, returned int64, v verb, value string, o outcome) porcupine.Operation {
		call, reply := registerCall{key: "k", verb: v, value: value}, registerReply{outcome: o}
		if v == reads {
			call.value, reply.value = "", value
		}
		return porcupine.Operation{Input: call, Call: called, Output: reply, Return: returned}
	}
	create := at(0, 10, creates, "1", done)
	lost := at(20, math.MaxInt64, updates, "2", unknown)
	for name, c := range map[string]struct {
		history []porcupine.Operation
		right   bool
	}{
		"new":                 {[]porcupine.Operation{create, at(11, 12, reads, "1", done)}, true},
		"old":                 {[]porcupine.Operation{create, at(11, 12, reads, "", absent)}, false},
		"during the write":    {[]porcupine.Operation{create, at(5, 12, reads, "", absent), at(5, 9, reads, "1", done)}, true},
		"back":                {[]porcupine.Operation{create, at(1, 3, reads, "1", done), at(4, 9, reads, "", absent)}, false},
		"lost, seen":          {[]porcupine.Operation{create, lost, at(30, 31, reads, "2", done)}, true},
		"lost, never seen":    {[]porcupine.Operation{create, lost, at(30, 31, reads, "1", done)}, true},
		"lost, seen once":     {[]porcupine.Operation{create, lost, at(30, 31, reads, "2", done), at(32, 33, reads, "1", done)}, false},
		"lost, seen too soon": {[]porcupine.Operation{create, lost, at(15, 16, reads, "2", done)}, false},
		"deleted":             {[]porcupine.Operation{create, at(20, 30, deletes, "", done), at(31, 32, reads, "1", done)}, false},
		"created twice":       {[]porcupine.Operation{create, at(20, 30, creates, "2", done)}, false},
		"refused":             {[]porcupine.Operation{create, at(20, 30, creates, "2", present), at(31, 32, reads, "1", done)}, true},
	} {
		if right := porcupine.CheckOperations(registers, c.history); right != c.right {
			t.Errorf("%s: linearizable %t, want %t", name, right, c.right)
		}
	}
}
