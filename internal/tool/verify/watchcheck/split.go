package watchcheck

import (
	"maps"
	"math"
)

// initialState describes the state that a watch's initial events show.
type initialState struct {
	// events is the number of initial events. Bookmarks do not count.
	events int
	// revision is the revision of the state. For a watch without initial events it is the
	// revision that the watch started from.
	revision int64
	// valid is set if the initial events equal the state at revision. If they broke off, it is
	// set if they are a part of that state.
	valid bool
	// partial is set if the initial events broke off.
	partial bool
}

// initialState returns the state that the initial events show. A revision qualifies if its state
// equals the first events exactly, and if the next event is newer.
//
// Several revisions may qualify. The oldest after which no event is missing is then preferred.
// If no revision qualifies and the watch broke, a revision is accepted whose state contains the
// events.
func (w *Watch) initialState(t *Truth) initialState {
	if !w.Initial {
		return initialState{revision: w.Revision, valid: true}
	}
	if w.initialCache.truth != t || w.initialCache.frames != len(w.Frames) {
		w.initialCache.truth = t
		w.initialCache.frames = len(w.Frames)
		w.initialCache.initialState = w.findInitialState(t)
	}
	return w.initialCache.initialState
}

// LatestStart returns the newest revision whose state the initial events may show. isComplete is
// set if they certainly show all of that state. Then their end was marked, or a later event has
// come, or the watch ended without an error.
func (w *Watch) LatestStart(t *Truth) (revision int64, isComplete bool) {
	b := w.initialState(t)
	if w.Initial && b.valid && !b.partial {
		found, _ := w.possibleStates(t)
		for _, other := range found {
			if other.revision > b.revision && w.continues(t, other) {
				b = other
			}
		}
	}
	isComplete = w.initialEnd() >= 0 || w.Ended && !w.endsWithError() || len(w.events()) > b.events
	return b.revision, isComplete && b.valid && !b.partial
}

// findInitialState is initialState without its cache, for a watch with initial events.
func (w *Watch) findInitialState(t *Truth) initialState {
	found, partial := w.possibleStates(t)
	for _, b := range found {
		if w.continues(t, b) {
			return b
		}
	}
	switch {
	case partial.valid:
		return partial
	case len(found) > 0:
		return found[len(found)-1]
	}
	return initialState{events: w.countLeading(), revision: w.Revision}
}

// continues reports whether the events after the initial state b are the first expected ones,
// and include all events up to the last bookmark.
func (w *Watch) continues(t *Truth, b initialState) bool {
	got := w.laterEvents(b)
	want := t.ExpectedEvents(&w.Selection, b.revision, t.Through)
	if len(got) > len(want) {
		return false
	}
	for i, f := range got {
		if f.Revision != want[i].Revision || f.Type != want[i].Type {
			return false
		}
	}
	return len(got) == len(want) || want[len(got)].Revision > w.lastBookmark()
}

// lastBookmark returns the newest revision of a bookmark, 0 if there is none.
func (w *Watch) lastBookmark() int64 {
	last := int64(0)
	for i := range w.Frames {
		if w.Frames[i].Type == Bookmark {
			last = max(last, w.Frames[i].Revision)
		}
	}
	return last
}

// possibleStates returns all states that the first events may show, ordered by revision. If the
// initial events may have broken off, partial is the last state that contains them all.
func (w *Watch) possibleStates(t *Truth) (found []initialState, partial initialState) {
	events := w.events()
	end := w.initialEnd()
	isBroken := end < 0 && (!w.Ended || w.endsWithError())
	newest := int64(math.MaxInt64)
	if end >= 0 {
		newest = w.Frames[end].Revision
	}
	state := t.StateAt(&w.Selection, t.From)
	// check tests the state that holds from one revision up to another.
	check := func(revision, through int64) {
		n := len(state)
		switch {
		case through < w.Revision || revision > newest:
		case n <= len(events) && (n == len(events) || events[n].Revision > revision) && shows(events[:n], state):
			found = append(found, initialState{events: n, revision: max(revision, min(w.Revision, through)), valid: true})
		case isBroken && n > len(events) && shows(events, state):
			partial = initialState{events: len(events), revision: revision, valid: true, partial: true}
		}
	}
	// The first state is older than the truth. The revision that it holds from is not known, but
	// is at least the revision of its newest object.
	at := int64(0)
	for _, s := range state {
		at = max(at, s.Revision)
	}
	for i := range t.Changes {
		c := &t.Changes[i]
		e := c.transition(&w.Selection)
		if e.Type == "" {
			continue
		}
		if c.Revision > at {
			check(at, c.Revision-1)
			at = c.Revision
		}
		if e.Type == Deleted {
			delete(state, c.Key)
		} else {
			state[c.Key] = c.After
		}
	}
	check(at, math.MaxInt64)
	return found, partial
}

// shows reports whether the events are ADDED events for different objects of the state, each
// with the object's revision and labels.
func shows(events []*Frame, state map[Key]*State) bool {
	used := make(map[Key]bool, len(events))
	for _, f := range events {
		key := f.Key
		if f.Opaque {
			key = keyAtRevision(state, f.Revision, used)
		}
		s := state[key]
		if f.Type != Added || s == nil || s.Revision != f.Revision || used[key] || !f.Opaque && !maps.Equal(s.Labels, f.Labels) {
			return false
		}
		used[key] = true
	}
	return true
}

// keyAtRevision returns the key of an object of a revision that is not used yet. The zero Key
// means that there is none.
func keyAtRevision(state map[Key]*State, revision int64, used map[Key]bool) Key {
	for k, s := range state {
		if s.Revision == revision && !used[k] {
			return k
		}
	}
	return Key{}
}

// events returns the frames of a watch without bookmarks and errors.
func (w *Watch) events() []*Frame {
	var events []*Frame
	for i := range w.Frames {
		if w.Frames[i].isEvent() {
			events = append(events, &w.Frames[i])
		}
	}
	return events
}

// countLeading returns the number of events that look like initial ones. If a bookmark ends the
// initial events, they are the ADDED events before it, else all ADDED events at the start.
func (w *Watch) countLeading() int {
	n := 0
	for i := range w.Frames {
		f := &w.Frames[i]
		if f.InitialEnd || f.isEvent() && f.Type != Added {
			break
		}
		if f.isEvent() {
			n++
		}
	}
	return n
}
