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

// Validators returns all validators that look at a single watch. Resumable and Converged compare
// several watches.
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

// Validate checks all guarantees of a watch. The truth must reach at least as far as the watch.
// The error joins one for each broken guarantee, which starts with the validator's name.
func Validate(t *Truth, w *Watch) error {
	var errs []error
	for _, v := range Validators() {
		if err := v.Check(t, w); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Initial checks that the initial events equal the state at one revision, which is not older
// than the requested revision. If the events broke off, they must be a part of that state.
func Initial(t *Truth, w *Watch) error {
	if b := w.initialState(t); !b.valid {
		return frameFault(-1, "%d events that look like initial ones are the state at no revision from %d on", b.events, max(w.Revision, t.From))
	}
	return nil
}

// InitialEnd checks the bookmark that ends the initial events. If the client requested it, it
// comes exactly once, after all initial events. Otherwise it never comes.
func InitialEnd(t *Truth, w *Watch) error {
	b := w.initialState(t)
	seen := 0 // events
	ends := 0
	for i := range w.Frames {
		f := &w.Frames[i]
		if f.isEvent() {
			seen++
		}
		if !f.InitialEnd {
			continue
		}
		ends++
		switch {
		case f.Type != Bookmark:
			return frameFault(i, "frame %d, %s, is marked as the end of initial events", i, f)
		case seen < b.events || b.partial:
			return frameFault(i, "frame %d, %s, comes after %d of %d initial events", i, f, seen, b.events)
		case f.Revision < b.revision:
			return frameFault(i, "frame %d, %s, is older than the initial events, which are of %d", i, f, b.revision)
		}
	}
	switch {
	case ends > 1:
		return frameFault(-1, "initial events end %d times", ends)
	case ends == 1 && !w.End:
		return frameFault(w.initialEnd(), "a bookmark ends the initial events, but was not requested")
	case ends == 0 && w.End && w.Ended && !w.endsWithError():
		return frameFault(-1, "initial events do not end")
	}
	return nil
}

// endsWithError reports whether the last frame is an ERROR.
func (w *Watch) endsWithError() bool {
	return len(w.Frames) > 0 && w.Frames[len(w.Frames)-1].Type == Error
}

// Ordered checks that revisions never decrease after the initial events. Bookmarks count.
func Ordered(t *Truth, w *Watch) error {
	b := w.initialState(t)
	last, seen := b.revision, 0
	for i := range w.Frames {
		f := &w.Frames[i]
		if f.isEvent() {
			seen++
		}
		if f.Type == Error || f.isEvent() && seen <= b.events {
			continue
		}
		if f.Revision < last {
			return frameFault(i, "frame %d, %s, comes after revision %d", i, f, last)
		}
		last = f.Revision
	}
	return nil
}

// laterEvents returns the events after the initial ones.
func (w *Watch) laterEvents(b initialState) []*Frame { return w.events()[b.events:] }

// identity distinguishes an event from every other event of a watch.
type identity struct {
	key      Key
	revision int64
}

// Unique checks that no event comes twice, and that no event is older than the point where the
// watch started.
func Unique(t *Truth, w *Watch) error {
	b := w.initialState(t)
	seen := map[identity]bool{}
	for _, f := range w.laterEvents(b) {
		if f.Revision <= b.revision {
			return frameFault(w.frameIndex(f), "%s is not after the start at %d", f, b.revision)
		}
		id := identity{f.Key, f.Revision}
		if !f.Opaque && seen[id] {
			return frameFault(w.frameIndex(f), "%s comes twice", f)
		}
		seen[id] = true
	}
	return nil
}

// Complete checks that no event is missing between the start and the last event or bookmark. It
// ignores further events of the last event's transaction, which Atomic checks.
func Complete(t *Truth, w *Watch) error {
	b := w.initialState(t)
	if b.partial {
		return nil
	}
	through := max(b.revision, w.lastBookmark())
	for _, f := range w.laterEvents(b) {
		through = max(through, f.Revision-1)
	}
	return w.findMissing(t, b, through)
}

// findMissing returns a fault if an event is missing after the initial state b, up to and
// including the revision through. It knows opaque events by their revision alone.
func (w *Watch) findMissing(t *Truth, b initialState, through int64) error {
	got := map[identity]int{}
	changes := w.laterEvents(b)
	for _, f := range changes {
		got[f.identity()]++
	}
	opaque := len(changes) > 0 && changes[0].Opaque
	for _, e := range t.ExpectedEvents(&w.Selection, b.revision, through) {
		id := identity{e.Key, e.Revision}
		if opaque {
			id.key = Key{}
		}
		if got[id]--; got[id] < 0 {
			text := fmt.Sprintf("%s %s %d is missing, though the watch has reached %d", e.Type, e.Key, e.Revision, through)
			return &Fault{Frame: w.firstFrameAfter(e.Revision), Event: e, text: text}
		}
	}
	return nil
}

// identity returns the identity of an event. That of an opaque event has no key.
func (f *Frame) identity() identity {
	if f.Opaque {
		return identity{revision: f.Revision}
	}
	return identity{f.Key, f.Revision}
}

// Atomic checks that events of one transaction follow each other without interruption. A watch
// that the server ended regularly has all of them or none. A watch whose connection broke may
// end within a transaction, which no server can prevent.
func Atomic(t *Truth, w *Watch) error {
	b := w.initialState(t)
	closed := map[int64]bool{}
	last, seen := int64(-1), 0
	for i := range w.Frames {
		f := &w.Frames[i]
		if f.isEvent() {
			seen++
		}
		if f.Type == Error || f.isEvent() && seen <= b.events {
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
			return frameFault(i, "frame %d, %s, is not next to other events of its transaction", i, f)
		}
	}
	if changes := w.laterEvents(b); w.Ended && !b.partial && len(changes) > 0 {
		return w.findMissing(t, b, changes[len(changes)-1].Revision)
	}
	return nil
}

// Bookmarks checks that bookmarks come only if the client allows them, have a revision, and come after
// the initial events. No event may follow a bookmark that covers the event's revision.
func Bookmarks(t *Truth, w *Watch) error {
	b := w.initialState(t)
	var bookmark *Frame
	seen := 0
	for i := range w.Frames {
		f := &w.Frames[i]
		switch {
		case f.Type == Bookmark && !w.Bookmarks:
			return frameFault(i, "frame %d, %s, was not requested", i, f)
		case f.Type == Bookmark && f.Revision <= 0:
			return frameFault(i, "frame %d, %s, has no revision", i, f)
		case f.Type == Bookmark && w.Initial && seen < b.events:
			return frameFault(i, "frame %d, %s, comes after %d of %d initial events", i, f, seen, b.events)
		case f.Type == Bookmark:
			bookmark = f
		case f.isEvent():
			seen++
			if bookmark != nil && f.Revision <= bookmark.Revision {
				return frameFault(i, "frame %d, %s, comes after %s", i, f, bookmark)
			}
		}
	}
	return nil
}

// Transitions checks the type and the object of each event: see Change.transition. An opaque
// frame has no key, so it may stand for any event of its transaction.
func Transitions(t *Truth, w *Watch) error {
	b := w.initialState(t)
	want := map[identity]Event{}
	types := map[int64][]string{} // by revision
	for _, e := range t.ExpectedEvents(&w.Selection, b.revision, t.Through) {
		want[identity{e.Key, e.Revision}] = e
		types[e.Revision] = append(types[e.Revision], e.Type)
	}
	for _, f := range w.laterEvents(b) {
		if f.Opaque {
			if !slices.Contains(types[f.Revision], f.Type) {
				return frameFault(w.frameIndex(f), "%s: the transaction has %v for the selection", f, types[f.Revision])
			}
			continue
		}
		e, ok := want[f.identity()]
		switch {
		case !ok:
			return frameFault(w.frameIndex(f), "%s: no such change of the selected objects", f)
		case e.Type != f.Type:
			return &Fault{Frame: w.frameIndex(f), Event: e, text: fmt.Sprintf("%s: for the selection the change is %s", f, e.Type)}
		case !maps.Equal(e.Labels, f.Labels):
			return &Fault{Frame: w.frameIndex(f), Event: e, text: fmt.Sprintf("%s has labels %v, want %v", f, f.Labels, e.Labels)}
		}
	}
	return nil
}

// Terminated checks that an ERROR is the last frame and has a status code. All other frames must be
// events or bookmarks.
func Terminated(_ *Truth, w *Watch) error {
	for i := range w.Frames {
		f := &w.Frames[i]
		switch {
		case f.Type != Error:
			if !f.isEvent() && f.Type != Bookmark {
				return frameFault(i, "frame %d has type %q", i, f.Type)
			}
		case i < len(w.Frames)-1:
			return frameFault(i+1, "%s follows %s", &w.Frames[i+1], f)
		case f.Status == nil || f.Status.Code == 0:
			return frameFault(i, "frame %d is an error without a status", i)
		}
	}
	return nil
}
