package verify

import (
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// shrinker reduces a history of one object that has no order to a few operations that have no
// order either. The result is a proof: each step is one after which a history with an order
// would still have one.
//
//   - Operations that were sent after a moment can be left out, and the answers that came
//     later be forgotten.
//   - Operations that were answered before all others were sent can be left out, if the
//     register may hold anything afterwards.
//   - A read can be left out. A write can, if its value may be found in the register at any
//     time.
//
// The first two are found by bisection, and the last one by trying. After the deadline nothing
// more is left out.
type shrinker struct{ deadline time.Time }

const shrinkTimeout = 2 * time.Second

// shrink returns the operations that are left of a history, in the order in which they were sent.
// It takes up to shrinkTimeout, and does not change its argument.
func shrink(all []*registerOperation) []*registerOperation {
	s := &shrinker{deadline: time.Now().Add(shrinkTimeout)}
	all = slices.Clone(all)
	sortByCall(all)
	all = s.shortestPrefix(all)
	all, start := s.shortestSuffix(all)
	return s.fewestOperations(all, start)
}

// fails reports whether the operations certainly have no order.
func (s *shrinker) fails(all []*registerOperation, x *interference) bool {
	left := time.Until(s.deadline)
	return left > 0 && porcupine.CheckOperationsTimeout(x.model(), porcupineOperations(all), left) == porcupine.Illegal
}

// shortestPrefix returns the history as it was at the first answer after which it had no order.
func (s *shrinker) shortestPrefix(all []*registerOperation) []*registerOperation {
	nothing := newInterference(nil, registerState{})
	var moments []time.Duration
	for _, o := range all {
		moments = append(moments, o.Returned)
	}
	slices.Sort(moments)
	n := sort.Search(len(moments), func(i int) bool { return s.fails(prefix(all, moments[i]), nothing) })
	if n == len(moments) {
		return all
	}
	return prefix(all, moments[n])
}

// prefix returns the history as it was at a moment: without operations that were sent later, and
// without reads that were answered later. Writes that were answered later have an unknown
// outcome.
func prefix(all []*registerOperation, until time.Duration) (cut []*registerOperation) {
	for _, o := range all {
		switch {
		case o.Called > until:
		case o.Returned <= until || o.unknown:
			cut = append(cut, o)
		case !o.isRead():
			later := *o
			later.unknown = true
			cut = append(cut, &later)
		}
	}
	return cut
}

// shortestSuffix leaves out the operations before a quiet moment, the latest possible one. It
// also returns the state of the register at that moment.
func (s *shrinker) shortestSuffix(all []*registerOperation) ([]*registerOperation, registerState) {
	cuts := quietMoments(all)
	anything := registerState{anything: true}
	slices.Reverse(cuts) // the latest first
	n := sort.Search(len(cuts), func(i int) bool { return s.fails(suffix(all, cuts[i]), newInterference(nil, anything)) })
	if n == len(cuts) {
		return all, registerState{}
	}
	return suffix(all, cuts[n]), anything
}

// suffix returns the operations from an index on, and earlier writes of unknown outcome, which
// may happen later.
func suffix(all []*registerOperation, cut int) []*registerOperation {
	before := slices.DeleteFunc(slices.Clone(all[:cut]), func(o *registerOperation) bool { return !o.unknown })
	return append(before, all[cut:]...)
}

// quietMoments returns the indexes of operations that were sent when all earlier ones had been
// answered, not counting operations of unknown outcome.
func quietMoments(all []*registerOperation) (cuts []int) {
	last := time.Duration(-1)
	for i, o := range all {
		if i > 0 && o.Called > last {
			cuts = append(cuts, i)
		}
		if !o.unknown {
			last = max(last, o.Returned)
		}
	}
	return cuts
}

// fewestOperations leaves out one operation after another, until none can be spared.
func (s *shrinker) fewestOperations(all []*registerOperation, start registerState) []*registerOperation {
	var left []*registerOperation
	for tried := true; tried; {
		tried = false
		for i := len(all) - 1; i >= 0; i-- {
			rest := slices.Delete(slices.Clone(all), i, i+1)
			if gone := append(slices.Clone(left), all[i]); s.fails(rest, newInterference(gone, start)) {
				all, left, tried = rest, gone, true
			}
		}
	}
	return all
}
