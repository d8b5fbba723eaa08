package watchcheck

import (
	"fmt"
	"maps"
	"slices"
)

// Resumable checks a watch that was resumed from an event or a bookmark of
// another watch. As far as both watches reach, the resumed watch must deliver
// the events that the original delivered after that point.
func Resumable(original, resumed *Watch) error {
	through := min(newest(original), newest(resumed))
	behind := func(w *Watch) []string {
		var all []string
		for _, f := range w.events() {
			if f.Revision > resumed.Revision && f.Revision <= through {
				all = append(all, f.String()+fmt.Sprint(f.Labels))
			}
		}
		slices.Sort(all) // Ordered checks the order.
		return all
	}
	want, got := behind(original), behind(resumed)
	if !slices.Equal(want, got) {
		return fmt.Errorf("from %d to %d the watch had %d events, and resumed at %d it has %d: %v, then %v",
			resumed.Revision, through, len(want), resumed.Revision, len(got), want, got)
	}
	return nil
}

// newest returns the revision up to which a watch is certainly complete. That
// is the revision of its last bookmark, or the revision before that of its last
// event: further events of the last event's transaction may be missing.
func newest(w *Watch) int64 {
	last := w.Revision
	for i := range w.Frames {
		switch f := &w.Frames[i]; {
		case f.Type == Bookmark:
			last = max(last, f.Revision)
		case f.event():
			last = max(last, f.Revision-1)
		}
	}
	return last
}

// Converged checks that a client ends up with the current objects. The client
// applies the events of its watches, each of which resumes from the one before
// or starts again with initial events.
func Converged(t *Truth, watches []*Watch) error {
	store := map[Key]int64{}
	through := t.From
	for n, w := range watches {
		b := w.begin(t)
		if w.Initial {
			clear(store)
		} else if n == 0 {
			for k, s := range t.At(&w.Selection, w.Revision) {
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
		for k, s := range t.At(&watches[0].Selection, through) {
			want[k] = s.Revision
		}
	}
	if !maps.Equal(store, want) {
		return fmt.Errorf("a client that saw everything up to %d has %s", through, differing(store, want))
	}
	return nil
}

func differing(got, want map[Key]int64) string {
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
