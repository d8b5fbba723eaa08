package verify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// randomHistory returns n operations that have an order: each happens at a moment between its
// call and its answer. Some writes are of unknown outcome.
func randomHistory(random *rand.Rand, n int) (all []*registerOperation) {
	type moment struct {
		at time.Duration
		o  *registerOperation
	}
	var moments []moment
	now := time.Duration(0)
	for i := range n {
		now += time.Duration(1 + random.IntN(6))
		o := &registerOperation{Operation: &Operation{Client: fmt.Sprint(i), Called: now, Returned: now + time.Duration(1+random.IntN(12))}}
		o.source = &Read{Operation: *o.Operation}
		moments = append(moments, moment{o.Called + time.Duration(random.IntN(int(o.Returned-o.Called))), o})
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return int(a.at - b.at) })
	value := ""
	for i, m := range moments {
		o := m.o
		if random.IntN(2) == 0 {
			o.value = value
		} else {
			do := create
			if value != "" {
				do = []verb{replace, patch, remove}[random.IntN(3)]
			}
			o.verb, o.unknown = do, random.IntN(10) == 0
			if o.source = (&Write{Operation: *o.Operation}); do != remove {
				o.value = fmt.Sprint("v", i)
			}
			if !o.unknown || random.IntN(2) == 0 {
				value = o.value
			}
		}
		all = append(all, o)
	}
	sortByCall(all)
	return all
}

// TestShrinkingInventsNothing checks that the rest of a history with an order has an order, in
// whatever way operations are left out.
func TestShrinkingInventsNothing(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	s := &shrinker{deadline: time.Now().Add(time.Minute)}
	nothing, anything := newInterference(nil, registerState{}), registerState{anything: true}
	for n := range 300 {
		all := randomHistory(random, 4+n%12)
		if s.fails(all, nothing) {
			t.Fatalf("history %d has an order, but none was found", n)
		}
		if until := all[random.IntN(len(all))].Returned; s.fails(prefix(all, until), nothing) {
			t.Errorf("history %d up to %d has no order", n, until)
		}
		for _, cut := range quietMoments(all) {
			if s.fails(suffix(all, cut), newInterference(nil, anything)) {
				t.Errorf("history %d from operation %d on has no order", n, cut)
			}
		}
		var left, rest []*registerOperation
		for _, o := range all {
			if random.IntN(2) == 0 {
				left = append(left, o)
			} else {
				rest = append(rest, o)
			}
		}
		if s.fails(rest, newInterference(left, registerState{})) {
			t.Errorf("history %d without %d operations has no order", n, len(left))
		}
	}
}

// TestShrink checks that a stale read among many operations is left with little more than the
// writes that make it stale.
func TestShrink(t *testing.T) {
	t.Parallel()
	var all []*registerOperation
	add := func(do verb, value string) {
		at := time.Duration(10 * len(all))
		o := &registerOperation{verb: do, value: value, Operation: &Operation{Client: fmt.Sprint(len(all)), Called: at, Returned: at + 5}}
		all = append(all, o)
	}
	add(create, "v0")
	for i := range 40 {
		add(patch, fmt.Sprint("v", i+1))
		add("", fmt.Sprint("v", i+1))
	}
	add("", "v39")
	for i := range 40 {
		add(patch, fmt.Sprint("w", i))
	}
	left := shrink(all)
	var values []string
	for _, o := range left {
		values = append(values, string(o.verb)+o.value)
	}
	// The read of v40 shows that v40 was written, and v39 had been read or written before.
	if len(left) > 3 || !slices.Contains(values, "v39") {
		t.Errorf("%v is left", values)
	}
}
