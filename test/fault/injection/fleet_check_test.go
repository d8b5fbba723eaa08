package injection

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
	"github.com/millrace/millrace/test/support/etcdtruth"
)

// resourceTruth is what etcd has of a resource, in the form in which informers note it.
type resourceTruth struct {
	*watchcheck.Truth
	events []seenEvent
	// states are the objects at revisions, as far as they were asked for.
	states map[int64]map[watchcheck.Key]int64
}

func newResourceTruth(truth *watchcheck.Truth) *resourceTruth {
	r := &resourceTruth{Truth: truth, states: map[int64]map[watchcheck.Key]int64{}}
	for i := range truth.Changes {
		c, kind := &truth.Changes[i], watchcheck.Modified
		switch {
		case c.Before == nil:
			kind = watchcheck.Added
		case c.After == nil:
			kind = watchcheck.Deleted
		}
		r.events = append(r.events, newSeenEvent(c.Revision, kind))
	}
	return r
}

// state returns the objects at a revision.
func (r *resourceTruth) state(revision int64) map[watchcheck.Key]int64 {
	found := r.states[revision]
	if found == nil {
		found = map[watchcheck.Key]int64{}
		for key, state := range r.StateAt(&watchcheck.Selection{}, revision) {
			found[key] = state.Revision
		}
		r.states[revision] = found
	}
	return found
}

// behind returns the events behind a revision.
func (r *resourceTruth) behind(revision int64) []seenEvent {
	at, _ := slices.BinarySearchFunc(r.events, revision, func(e seenEvent, revision int64) int {
		if e.revision() <= revision {
			return -1
		}
		return 1
	})
	return r.events[at:]
}

// check returns an error unless a stretch has each event behind its beginning once, in the
// order of revisions: all of them if the stretch is the last one of its informer, and
// otherwise those up to where it broke.
func (r *resourceTruth) check(s *stretch, isLast bool) error {
	if len(s.faults) > 0 {
		return fmt.Errorf("%v", s.faults)
	}
	if s.began < r.From {
		return fmt.Errorf("it began at %d, and the record begins at %d", s.began, r.From)
	}
	want := r.behind(s.began)
	if !isLast {
		want = want[:min(len(want), len(s.events))]
	}
	for i := range max(len(want), len(s.events)) {
		switch {
		case i >= len(want):
			return fmt.Errorf("event %d behind %d is %v, and there was none", i, s.began, s.events[i])
		case i >= len(s.events):
			return fmt.Errorf("event %d behind %d is missing: %v, and %d more", i, s.began, want[i], len(want)-i-1)
		case want[i] != s.events[i]:
			return fmt.Errorf("event %d behind %d is %v, and was to be %v", i, s.began, s.events[i], want[i])
		}
	}
	through := s.began
	if n := len(s.events); n > 0 {
		through = s.events[n-1].revision()
	}
	if want := r.state(through); !maps.Equal(s.objects, want) {
		return fmt.Errorf("at %d it has %d objects, and was to have %d, or other ones", through, len(s.objects), len(want))
	}
	return nil
}

// mostReported is how many informers are reported that are not right.
const mostReported = 10

// check checks what all informers have got, after close: each event once, in order, and in the
// end the objects that the server has. Writes must have ended.
func (f *fleet) check(t *testing.T, follower *etcdtruth.Follower, at *load) {
	t.Helper()
	var truths []*resourceTruth
	for i := range f.resources {
		r := newResourceTruth(follower.Truth(f.resources[i].name))
		truths = append(truths, r)
		found, err := at.list(&f.resources[i])
		if err != nil {
			t.Fatal(err)
		}
		if want := r.state(r.Through); !maps.Equal(found, want) {
			t.Errorf("the root has %d %s, and etcd %d, or other ones", len(found), f.resources[i].name, len(want))
		}
	}
	wrong := 0
	for n := range f.informers {
		for i, s := range n.mu.stretches {
			err := truths[n.resource].check(s, i == len(n.mu.stretches)-1)
			if err == nil {
				continue
			}
			if wrong++; wrong <= mostReported {
				t.Errorf("an informer of %s, stretch %d of %d: %v", f.resources[n.resource].name, i+1, len(n.mu.stretches), err)
			}
		}
	}
	if wrong > mostReported {
		t.Errorf("%d stretches are not right", wrong)
	}
}

// TestFleetCheck has faults found in what an informer noted.
func TestFleetCheck(t *testing.T) {
	t.Parallel()
	a, b := watchcheck.Key{Name: "a"}, watchcheck.Key{Name: "b"}
	one, three := &watchcheck.State{Revision: 1}, &watchcheck.State{Revision: 3}
	truth := newResourceTruth(&watchcheck.Truth{From: 1, Initial: map[watchcheck.Key]*watchcheck.State{a: one}, Through: 9, Changes: []watchcheck.Change{
		{Revision: 3, Key: b, After: three}, {Revision: 5, Key: a, Before: one}, {Revision: 7, Key: b, Before: three, After: &watchcheck.State{Revision: 7}},
	}})
	type step struct {
		kind     string
		key      watchcheck.Key
		revision int64
	}
	added, deleted, modified := step{watchcheck.Added, b, 3}, step{watchcheck.Deleted, a, 5}, step{watchcheck.Modified, b, 7}
	for name, c := range map[string]struct {
		began int64
		steps []step
		right bool
	}{
		"all":      {2, []step{added, deleted, modified}, true},
		"later":    {3, []step{deleted, modified}, true},
		"missed":   {2, []step{added, modified}, false},
		"early":    {2, []step{added, deleted}, false},
		"repeated": {2, []step{added, deleted, deleted, modified}, false},
		"order":    {2, []step{deleted, added, modified}, false},
		"another":  {2, []step{added, deleted, modified, {watchcheck.Modified, b, 8}}, false},
	} {
		s := newStretch()
		s.began, s.last = c.began, c.began
		maps.Copy(s.objects, truth.state(c.began))
		for _, step := range c.steps {
			s.take(step.kind, step.key, step.revision)
			s.last = step.revision
		}
		if err := truth.check(s, true); (err == nil) != c.right {
			t.Errorf("%s: %v", name, err)
		}
	}
}
