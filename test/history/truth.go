package history

import (
	"maps"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Key names an object of a resource; Namespace is empty for cluster-scoped ones.
type Key struct{ Namespace, Name string }

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// State is an object between two changes.
type State struct {
	// Revision is that of the change which made it.
	Revision int64
	Labels   labels.Set
	Fields   fields.Set
}

// Change is what one transaction did to one object. Before is nil for a
// creation, After for a deletion.
type Change struct {
	Revision      int64
	Key           Key
	Before, After *State
}

// Truth is what happened to the objects of a resource.
type Truth struct {
	// From is the revision that Initial shows.
	From    int64
	Initial map[Key]*State
	// Changes are all behind From up to Through, by revision.
	Changes []Change
	Through int64
}

// Selection is which objects a watch is about.
type Selection struct {
	// Namespace and Name are empty for all.
	Namespace, Name string
	// Labels and Fields are nil for all.
	Labels labels.Selector
	Fields fields.Selector
}

func (s *Selection) matches(k Key, state *State) bool {
	switch {
	case state == nil, s.Namespace != "" && s.Namespace != k.Namespace, s.Name != "" && s.Name != k.Name:
		return false
	case s.Labels != nil && !s.Labels.Matches(state.Labels):
		return false
	}
	return s.Fields == nil || s.Fields.Matches(state.Fields)
}

// The types of frames, as they are sent.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	Bookmark = "BOOKMARK"
	Error    = "ERROR"
)

// Event is what a watch has to deliver.
type Event struct {
	Type     string
	Key      Key
	Revision int64
	Labels   labels.Set
}

// transition is what a change means to a selection; "" for nothing. An object
// that leaves is shown as it was when it was last selected, at the revision of
// the change.
func (c *Change) transition(s *Selection) Event {
	e := Event{Key: c.Key, Revision: c.Revision}
	before, after := s.matches(c.Key, c.Before), s.matches(c.Key, c.After)
	switch {
	case before && after:
		e.Type, e.Labels = Modified, c.After.Labels
	case after:
		e.Type, e.Labels = Added, c.After.Labels
	case before:
		e.Type, e.Labels = Deleted, c.Before.Labels
	}
	return e
}

// Expected are the events of a selection behind one revision, up to another.
func (t *Truth) Expected(s *Selection, after, through int64) []Event {
	var events []Event
	for i := range t.Changes {
		if c := &t.Changes[i]; c.Revision > after && c.Revision <= through {
			if e := c.transition(s); e.Type != "" {
				events = append(events, e)
			}
		}
	}
	return events
}

// At is what a selection holds at a revision.
func (t *Truth) At(s *Selection, revision int64) map[Key]*State {
	all := maps.Clone(t.Initial)
	if all == nil {
		all = map[Key]*State{}
	}
	for i := range t.Changes {
		c := &t.Changes[i]
		if c.Revision > revision {
			break
		}
		apply(all, c.Key, c.After)
	}
	maps.DeleteFunc(all, func(k Key, state *State) bool { return !s.matches(k, state) })
	return all
}

func apply(objects map[Key]*State, k Key, state *State) {
	if state == nil {
		delete(objects, k)
		return
	}
	objects[k] = state
}
