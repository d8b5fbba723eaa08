package watchcheck

import (
	"fmt"
	"maps"
	"slices"
)

// Resumable checks a watch that was resumed from an event or a bookmark of another watch. As
// far as both watches reach, the resumed watch must deliver the events that the original
// delivered after that point.
func Resumable(original, resumed *Watch) error {
	through := min(completeThrough(original), completeThrough(resumed))
	eventsAfter := func(w *Watch) []string {
		var all []string
		for _, f := range w.events() {
			if f.Revision > resumed.Revision && f.Revision <= through {
				all = append(all, f.String()+fmt.Sprint(f.Labels))
			}
		}
		slices.Sort(all) // Ordered checks the order
		return all
	}
	want := eventsAfter(original)
	got := eventsAfter(resumed)
	if !slices.Equal(want, got) {
		return fmt.Errorf("from %d to %d the watch had %d events, and resumed at %d it has %d: %v, then %v",
			resumed.Revision, through, len(want), resumed.Revision, len(got), want, got)
	}
	return nil
}

// completeThrough returns the revision up to which a watch is certainly complete. It is the
// revision of the last bookmark, or the one before the last event: further events of the last
// event's transaction may be missing.
func completeThrough(w *Watch) int64 {
	last := w.Revision
	for i := range w.Frames {
		switch f := &w.Frames[i]; {
		case f.Type == Bookmark:
			last = max(last, f.Revision)
		case f.isEvent():
			last = max(last, f.Revision-1)
		}
	}
	return last
}

// Converged checks that a client ends up with the current objects. The client applies the events
// of its watches, in order. Each watch resumes from the one before, or starts again with initial
// events. All have the same selection.
func Converged(t *Truth, watches []*Watch) error {
	store := map[Key]int64{}
	through := t.From
	for n, w := range watches {
		b := w.initialState(t)
		if w.Initial {
			clear(store)
		} else if n == 0 {
			for k, s := range t.StateAt(&w.Selection, w.Revision) {
				store[k] = s.Revision
			}
		}
		for i, f := range w.events() {
			if f.Type == Deleted {
				delete(store, f.Key)
			} else {
				store[f.Key] = f.Revision
			}
			if i >= b.events {
				through = max(through, f.Revision)
			}
		}
		through = max(through, b.revision)
	}
	want := map[Key]int64{}
	if len(watches) > 0 {
		for k, s := range t.StateAt(&watches[0].Selection, through) {
			want[k] = s.Revision
		}
	}
	if !maps.Equal(store, want) {
		return fmt.Errorf("a client that saw everything up to %d has %s", through, describeDifference(store, want))
	}
	return nil
}

// describeDifference returns what a client's objects lack or have too much, as text. Values are
// revisions.
func describeDifference(got, want map[Key]int64) string {
	var out []string
	for k, rv := range got {
		if want[k] != rv {
			out = append(out, fmt.Sprintf("%s at %d, which should be at %d", k, rv, want[k]))
		}
	}
	for k, rv := range want {
		if got[k] == 0 {
			out = append(out, fmt.Sprintf("no %s, which should be at %d", k, rv))
		}
	}
	slices.Sort(out)
	return fmt.Sprint(out)
}
