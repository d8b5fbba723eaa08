package watchcheck

import (
	"maps"
	"math"
)

// initialState describes the state that a watch's initial events show.
type initialState struct {
	// events is the number of initial events. Bookmarks do not count.
	events int
	// revision is the revision of the state, or the revision that the watch
	// started from if it had no initial events.
	revision int64
	// valid is set if the initial events equal the state at revision. If they
	// broke off, it is set if they are a part of that state.
	valid bool
	// partial is set if the initial events broke off.
	partial bool
}

// begin finds the state that the initial events show. A revision qualifies if
// its state equals the first events exactly and if the next event is newer.
//
// Several revisions may qualify. begin then prefers the oldest after which no
// event is missing. If no revision qualifies and the watch broke, begin accepts
// a revision whose state contains the events.
func (w *Watch) begin(t *Truth) initialState {
	if !w.Initial {
		return initialState{revision: w.Revision, valid: true}
	}
	if w.begun.truth != t || w.begun.frames != len(w.Frames) {
		w.begun.truth, w.begun.frames, w.begun.initialState = t, len(w.Frames), w.findInitialState(t)
	}
	return w.begun.initialState
}

// Began returns the newest revision with whose state the watch may have begun, and whether
// it has certainly told of the whole of that state: it has said so, or has told of something
// later, or has ended without an error.
func (w *Watch) Began(t *Truth) (revision int64, whole bool) {
	b := w.begin(t)
	if w.Initial && b.valid && !b.partial {
		found, _ := w.beginnings(t)
		for _, other := range found {
			if other.revision > b.revision && w.continues(t, other) {
				b = other
			}
		}
	}
	whole = w.initialEnd() >= 0 || w.Ended && !w.failed() || len(w.events()) > b.events
	return b.revision, whole && b.valid && !b.partial
}

func (w *Watch) findInitialState(t *Truth) initialState {
	found, partial := w.beginnings(t)
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
	return initialState{events: w.leading(), revision: w.Revision}
}

// continues reports whether the events after the initial state b are the first
// expected ones, and whether they include all events that the bookmarks claim.
func (w *Watch) continues(t *Truth, b initialState) bool {
	got := w.changes(b)
	want := t.Expected(&w.Selection, b.revision, t.Through)
	if len(got) > len(want) {
		return false
	}
	for i, f := range got {
		if f.Revision != want[i].Revision || f.Type != want[i].Type {
			return false
		}
	}
	told := int64(0)
	for i := range w.Frames {
		if w.Frames[i].Type == Bookmark {
			told = max(told, w.Frames[i].Revision)
		}
	}
	return len(got) == len(want) || want[len(got)].Revision > told
}

// beginnings returns all states that the first events may show, ordered by
// revision.
func (w *Watch) beginnings(t *Truth) (found []initialState, partial initialState) {
	events, end := w.events(), w.initialEnd()
	newest, broken := int64(math.MaxInt64), end < 0 && (!w.Ended || w.failed())
	if end >= 0 {
		newest = w.Frames[end].Revision
	}
	state := t.At(&w.Selection, t.From)
	// check tests the state that holds from one revision up to another.
	check := func(revision, through int64) {
		n := len(state)
		switch {
		case through < w.Revision || revision > newest:
		case n <= len(events) && (n == len(events) || events[n].Revision > revision) && shows(events[:n], state):
			found = append(found, initialState{events: n, revision: max(revision, min(w.Revision, through)), valid: true})
		case broken && n > len(events) && shows(events, state):
			partial = initialState{events: len(events), revision: revision, valid: true, partial: true}
		}
	}
	// The first state is older than the truth and its first revision is
	// unknown. It is at least that of the newest object in the state.
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

// shows reports whether the events are ADDED events for different objects of
// the state, each with the object's revision.
func shows(events []*Frame, state map[Key]*State) bool {
	used := make(map[Key]bool, len(events))
	for _, f := range events {
		key := f.Key
		if f.Opaque {
			key = byRevision(state, f.Revision, used)
		}
		s := state[key]
		if f.Type != Added || s == nil || s.Revision != f.Revision || used[key] || !f.Opaque && !maps.Equal(s.Labels, f.Labels) {
			return false
		}
		used[key] = true
	}
	return true
}

func byRevision(state map[Key]*State, revision int64, used map[Key]bool) Key {
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
		if w.Frames[i].event() {
			events = append(events, &w.Frames[i])
		}
	}
	return events
}

// leading counts the events that look like initial ones. If a bookmark ends the
// initial events, they are the events before it; otherwise they are the leading
// ADDED events.
func (w *Watch) leading() int {
	n := 0
	for i := range w.Frames {
		f := &w.Frames[i]
		if f.InitialEnd || f.event() && f.Type != Added {
			break
		}
		if f.event() {
			n++
		}
	}
	return n
}
