package verify

import (
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// registerOperation is an operation on an object as a register: a value, or "" where there is
// no object.
type registerOperation struct {
	// verb is "" for a read.
	verb verb
	// value is what a write wrote or a read was told.
	value string
	// unknown says that it is not known whether the write has happened.
	unknown bool
	*Operation
	by teller
}

func (o *registerOperation) read() bool { return o.verb == "" }

// registerState is what the register holds.
type registerState struct {
	value string
	// anything says that it may hold whatever the next operation needs.
	anything bool
}

// interference is what operations that are left out of a history may do to the register at
// any time.
type interference struct {
	// values are those that they write. "" is among them if they delete.
	values map[string]bool
	// present says that they may leave an object.
	present bool
	// start is what the register holds at the beginning.
	start registerState
}

// without is the interference by some operations. Reads change nothing.
func without(left []*registerOperation, start registerState) *interference {
	x := &interference{values: map[string]bool{}, start: start}
	for _, o := range left {
		if !o.read() {
			x.values[o.value] = true
			x.present = x.present || o.value != ""
		}
	}
	return x
}

// model is the model of one object. It knows no revisions: where a server's revisions are
// wrong, it finds what the other checks believe.
func (x *interference) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return x.start },
		Step: func(state, input, _ any) (bool, any) {
			return x.step(state.(registerState), input.(*registerOperation))
		},
		Equal: func(a, b any) bool {
			return a.(registerState) == b.(registerState)
		},
	}
}

// step says whether an operation can follow in a state, and what it leaves.
func (x *interference) step(now registerState, o *registerOperation) (bool, registerState) {
	if o.read() {
		return now.anything || now.value == o.value || x.values[o.value], registerState{value: o.value}
	}
	// A create needs that there is no object, a patch or a deletion that there is one.
	// Leases, unlike most kinds, may be created by an update.
	fits := now.anything || o.verb == replace
	if o.verb == create {
		fits = fits || now.value == "" || x.values[""]
	} else {
		fits = fits || now.value != "" || x.present
	}
	switch {
	case fits:
		return true, registerState{value: o.value}
	case o.unknown:
		return true, now // it was refused
	}
	return false, now
}

// porcupineOperations are operations as the search for an order takes them.
func porcupineOperations(all []*registerOperation) []porcupine.Operation {
	clients := map[string]int{}
	operations := make([]porcupine.Operation, len(all))
	for i, o := range all {
		if _, ok := clients[o.Client]; !ok {
			clients[o.Client] = len(clients)
		}
		returned := int64(o.Returned)
		if o.unknown {
			returned = math.MaxInt64 // it may happen at any time, and never
		}
		operations[i] = porcupine.Operation{ClientId: clients[o.Client], Input: o, Call: int64(o.Called), Return: returned}
	}
	return operations
}

// sortByCall sorts operations by the time at which they were sent.
func sortByCall(all []*registerOperation) {
	slices.SortStableFunc(all, func(a, b *registerOperation) int { return int(a.Called - b.Called) })
}
