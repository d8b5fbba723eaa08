package watchcheck

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Validator checks one guarantee of a watch.
type Validator struct {
	Name  string
	Check func(*Truth, *Watch) error
}

// Validators returns all validators that look at a single watch. Resumable and
// Converged compare several watches.
func Validators() []Validator {
	return []Validator{
		{"initial", Initial},
		{"initial end", InitialEnd},
		{"ordered", Ordered},
		{"unique", Unique},
		{"complete", Complete},
		{"atomic", Atomic},
		{"bookmarks", Bookmarks},
		{"transitions", Transitions},
		{"terminated", Terminated},
	}
}

// Validate checks all guarantees of a watch. The truth must reach at least as
// far as the watch.
func Validate(t *Truth, w *Watch) error {
	var errs []error
	for _, v := range Validators() {
		if err := v.Check(t, w); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Initial checks that the initial events equal the state at one revision, which
// is not older than the requested revision.
func Initial(t *Truth, w *Watch) error {
	if b := w.begin(t); !b.valid {
		return fault(-1, "%d events like initial ones are the state at no revision from %d on", b.events, max(w.Revision, t.From))
	}
	return nil
}

// InitialEnd checks the bookmark that ends the initial events. If the client
// requested it, it comes exactly once, after all initial events. Otherwise it
// never comes.
func InitialEnd(t *Truth, w *Watch) error {
	b := w.begin(t)
	seen, ends := 0, 0
	for i := range w.Frames {
		f := &w.Frames[i]
		if f.event() {
			seen++
		}
		if !f.InitialEnd {
			continue
		}
		ends++
		switch {
		case f.Type != Bookmark:
			return fault(i, "frame %d, %s, is marked as the end of initial events", i, f)
		case seen < b.events || b.partial:
			return fault(i, "frame %d, %s, comes behind %d of %d initial events", i, f, seen, b.events)
		case f.Revision < b.revision:
			return fault(i, "frame %d, %s, is older than the initial events, which are of %d", i, f, b.revision)
		}
	}
	switch {
	case ends > 1:
		return fault(-1, "initial events end %d times", ends)
	case ends == 1 && !w.End:
		return fault(w.initialEnd(), "initial events end without having been asked for")
	case ends == 0 && w.End && w.Ended && !w.failed():
		return fault(-1, "initial events do not end")
	}
	return nil
}

func (w *Watch) failed() bool {
	return len(w.Frames) > 0 && w.Frames[len(w.Frames)-1].Type == Error
}

// Ordered checks that revisions never decrease after the initial events. This
// includes the revisions of bookmarks.
func Ordered(t *Truth, w *Watch) error {
	b := w.begin(t)
	last, seen := b.revision, 0
	for i := range w.Frames {
		f := &w.Frames[i]
		if f.event() {
			seen++
		}
		if f.Type == Error || f.event() && seen <= b.events {
			continue
		}
		if f.Revision < last {
			return fault(i, "frame %d, %s, comes behind revision %d", i, f, last)
		}
		last = f.Revision
	}
	return nil
}

func (w *Watch) changes(b initialState) []*Frame { return w.events()[b.events:] }

// identity distinguishes an event from every other event of a watch.
type identity struct {
	key      Key
	revision int64
}

// Unique checks that no event comes twice, and that no event is older than the
// point where the watch started.
func Unique(t *Truth, w *Watch) error {
	b := w.begin(t)
	seen := map[identity]bool{}
	for _, f := range w.changes(b) {
		if f.Revision <= b.revision {
			return fault(w.frameOf(f), "%s is not behind the start at %d", f, b.revision)
		}
		if id := (identity{f.Key, f.Revision}); !f.Opaque && seen[id] {
			return fault(w.frameOf(f), "%s comes twice", f)
		} else {
			seen[id] = true
		}
	}
	return nil
}

// Complete checks that no event is missing between the start and the last event
// or bookmark. It ignores further events of the last event's transaction, which
// Atomic checks.
func Complete(t *Truth, w *Watch) error {
	b := w.begin(t)
	if b.partial {
		return nil
	}
	through := b.revision
	for i := range w.Frames {
		f := &w.Frames[i]
		if f.Type == Bookmark {
			through = max(through, f.Revision)
		}
	}
	for _, f := range w.changes(b) {
		through = max(through, f.Revision-1)
	}
	return w.misses(t, b, through)
}

// misses returns an error if an event is missing between the initial state b
// and the revision through.
func (w *Watch) misses(t *Truth, b initialState, through int64) error {
	got := map[identity]int{}
	changes := w.changes(b)
	for _, f := range changes {
		got[f.identity()]++
	}
	opaque := len(changes) > 0 && changes[0].Opaque
	for _, e := range t.Expected(&w.Selection, b.revision, through) {
		id := identity{e.Key, e.Revision}
		if opaque {
			id.key = Key{}
		}
		if got[id]--; got[id] < 0 {
			return &Fault{Frame: w.behind(e.Revision), Event: e, text: fmt.Sprintf("%s %s %d is missing, though the watch tells of %d", e.Type, e.Key, e.Revision, through)}
		}
	}
	return nil
}

func (f *Frame) identity() identity {
	if f.Opaque {
		return identity{revision: f.Revision}
	}
	return identity{f.Key, f.Revision}
}

// Atomic checks that events of one transaction follow each other without
// interruption. A watch that the server ended regularly has all of them or
// none. A watch whose connection broke may end within a transaction, which no
// server can prevent.
func Atomic(t *Truth, w *Watch) error {
	b := w.begin(t)
	closed := map[int64]bool{}
	last, seen := int64(-1), 0
	for i := range w.Frames {
		f := &w.Frames[i]
		if f.event() {
			seen++
		}
		if f.Type == Error || f.event() && seen <= b.events {
			continue
		}
		if f.Type == Bookmark {
			closed[last], last = true, -1
			continue
		}
		if f.Revision != last {
			closed[last], last = true, f.Revision
		}
		if closed[f.Revision] {
			return fault(i, "frame %d, %s, comes apart from others of its transaction", i, f)
		}
	}
	if changes := w.changes(b); w.Ended && !b.partial && len(changes) > 0 {
		return w.misses(t, b, changes[len(changes)-1].Revision)
	}
	return nil
}

// Bookmarks checks that bookmarks come only if the client allows them, and that
// no event follows a bookmark which covers the event's revision.
func Bookmarks(t *Truth, w *Watch) error {
	b := w.begin(t)
	var bookmark *Frame
	seen := 0
	for i := range w.Frames {
		f := &w.Frames[i]
		switch {
		case f.Type == Bookmark && !w.Bookmarks:
			return fault(i, "frame %d, %s, was not asked for", i, f)
		case f.Type == Bookmark && f.Revision <= 0:
			return fault(i, "frame %d, %s, has no revision", i, f)
		case f.Type == Bookmark && w.Initial && seen < b.events:
			return fault(i, "frame %d, %s, comes behind %d of %d initial events", i, f, seen, b.events)
		case f.Type == Bookmark:
			bookmark = f
		case f.event():
			seen++
			if bookmark != nil && f.Revision <= bookmark.Revision {
				return fault(i, "frame %d, %s, comes behind %s", i, f, bookmark)
			}
		}
	}
	return nil
}

// Transitions checks the type and the object of each event: see
// Change.transition.
func Transitions(t *Truth, w *Watch) error {
	b := w.begin(t)
	want := map[identity]Event{}
	// An opaque frame has no key, so it may stand for any event of its
	// transaction.
	kinds := map[int64][]string{}
	for _, e := range t.Expected(&w.Selection, b.revision, t.Through) {
		want[identity{e.Key, e.Revision}] = e
		kinds[e.Revision] = append(kinds[e.Revision], e.Type)
	}
	for _, f := range w.changes(b) {
		if f.Opaque {
			if !slices.Contains(kinds[f.Revision], f.Type) {
				return fault(w.frameOf(f), "%s: the transaction has %v for the selection", f, kinds[f.Revision])
			}
			continue
		}
		e, ok := want[f.identity()]
		switch {
		case !ok:
			return fault(w.frameOf(f), "%s: no such change of what is selected", f)
		case e.Type != f.Type:
			return &Fault{Frame: w.frameOf(f), Event: e, text: fmt.Sprintf("%s: the object's change is %s to the selection", f, e.Type)}
		case !maps.Equal(e.Labels, f.Labels):
			return &Fault{Frame: w.frameOf(f), Event: e, text: fmt.Sprintf("%s has labels %v, want %v", f, f.Labels, e.Labels)}
		}
	}
	return nil
}

// Terminated checks that an ERROR is the last frame and has a complete Status.
func Terminated(_ *Truth, w *Watch) error {
	for i := range w.Frames {
		f := &w.Frames[i]
		switch {
		case f.Type != Error:
			if !f.event() && f.Type != Bookmark {
				return fault(i, "frame %d has type %q", i, f.Type)
			}
		case i < len(w.Frames)-1:
			return fault(i+1, "%s follows %s", &w.Frames[i+1], f)
		case f.Status == nil || f.Status.Code == 0:
			return fault(i, "frame %d is an error without a status", i)
		}
	}
	return nil
}
