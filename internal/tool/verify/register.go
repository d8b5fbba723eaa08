package verify

import (
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// registerOperation is an operation on one object. The object is taken for a register, which
// holds a value, or "" where there is no object.
type registerOperation struct {
	// verb is "" for a read.
	verb verb
	// value is the value that a write wrote or that a read showed.
	value string
	// unknown says that the write may have happened or not.
	unknown bool
	*Operation
	source recordedRequest
}

func (o *registerOperation) isRead() bool { return o.verb == "" }

// registerState is the content of the register.
type registerState struct {
	value string
	// anything says that the register may hold whatever the next operation needs.
	anything bool
}

// interference is the effect of operations that are left out of a history. Each may change the
// register at any time.
type interference struct {
	// values has the values that these operations write, and "" if one of them deletes.
	values map[string]bool
	// present says that one of them writes a value.
	present bool
	// start is the state of the register at the start.
	start registerState
}

// newInterference returns the effect of operations that are left out. Reads have none.
func newInterference(left []*registerOperation, start registerState) *interference {
	x := &interference{values: map[string]bool{}, start: start}
	for _, o := range left {
		if !o.isRead() {
			x.values[o.value] = true
			x.present = x.present || o.value != ""
		}
	}
	return x
}

// model returns porcupine's model of one object. The model has no revisions, so it finds faults
// that wrong revisions hide from other checks.
func (x *interference) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return x.start },
		Step: func(state, input, _ any) (bool, any) {
			return x.apply(state.(registerState), input.(*registerOperation))
		},
		Equal: func(a, b any) bool {
			return a.(registerState) == b.(registerState)
		},
	}
}

// apply reports whether an operation can happen in a state, and returns the state after it.
func (x *interference) apply(now registerState, o *registerOperation) (bool, registerState) {
	if o.isRead() {
		return now.anything || now.value == o.value || x.values[o.value], registerState{value: o.value}
	}
	// A create requires that there is no object. A patch or a deletion requires one. An update
	// may create a lease, unlike objects of most kinds.
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

// porcupineOperations returns operations in the form that porcupine takes. An operation of
// unknown outcome may happen at any time after its call, or never: it returns at the end of time.
func porcupineOperations(all []*registerOperation) []porcupine.Operation {
	clients := map[string]int{}
	operations := make([]porcupine.Operation, len(all))
	for i, o := range all {
		if _, ok := clients[o.Client]; !ok {
			clients[o.Client] = len(clients)
		}
		returned := int64(o.Returned)
		if o.unknown {
			returned = math.MaxInt64
		}
		operations[i] = porcupine.Operation{ClientId: clients[o.Client], Input: o, Call: int64(o.Called), Return: returned}
	}
	return operations
}

// sortByCall sorts operations in place, by the time at which they were sent.
func sortByCall(all []*registerOperation) {
	slices.SortStableFunc(all, func(a, b *registerOperation) int { return int(a.Called - b.Called) })
}
