package watchcheck

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
)

// Key identifies an object of a resource. Namespace is empty for cluster-scoped objects.
type Key struct{ Namespace, Name string }

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// State is one version of an object.
type State struct {
	// Revision is the revision of the change that wrote this version.
	Revision int64
	Labels   labels.Set
	Fields   fields.Set
	UID      types.UID
}

// Change is the effect of one transaction on one object. Before is nil if the
// object was created, After is nil if it was deleted.
type Change struct {
	Revision      int64
	Key           Key
	Before, After *State
}

// Truth is the history of a resource: every version of every object, which watches are compared
// with. Tests read it from etcd; verify derives it from answers.
type Truth struct {
	// From is the revision of the state in Initial.
	From    int64
	Initial map[Key]*State
	// Changes has all changes after From up to Through, ordered by revision.
	Changes []Change
	Through int64
}

// Selection describes the objects that a watch selects.
type Selection struct {
	// Namespace and Name are empty if they do not restrict the selection.
	Namespace, Name string
	// Labels and Fields are nil if they do not restrict the selection.
	Labels labels.Selector
	Fields fields.Selector
	// Shard is nil if it does not restrict the selection.
	Shard sharding.Selector
}

// Matches reports whether the selection includes object k in a state. A nil state, which stands
// for an absent object, never matches.
func (s *Selection) Matches(k Key, state *State) bool {
	switch {
	case state == nil, s.Namespace != "" && s.Namespace != k.Namespace, s.Name != "" && s.Name != k.Name:
		return false
	case s.Labels != nil && !s.Labels.Matches(state.Labels), s.Shard != nil && !state.inShard(s.Shard, k):
		return false
	}
	return s.Fields == nil || s.Fields.Matches(state.Fields)
}

// inShard reports whether object k is in a shard. A selector that cannot be evaluated matches
// nothing: one with different shard keys, or with an unknown field.
func (state *State) inShard(shard sharding.Selector, k Key) bool {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, UID: state.UID}}
	matches, err := shard.Matches(object)
	return err == nil && matches
}

// Types of frames, as servers send them.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	Bookmark = "BOOKMARK"
	Error    = "ERROR"
)

// Event is an event that a watch has to deliver.
type Event struct {
	Type     string
	Key      Key
	Revision int64
	Labels   labels.Set
}

// transition returns the event that a change causes in a watch of the selection. Its Type is
// empty if the change causes none. If the object leaves the selection, the event shows the last
// selected version of the object, at the revision of the change.
func (c *Change) transition(s *Selection) Event {
	e := Event{Key: c.Key, Revision: c.Revision}
	before, after := s.Matches(c.Key, c.Before), s.Matches(c.Key, c.After)
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

// ExpectedEvents returns the events that a watch of the selection must deliver for the changes after
// one revision, up to and including another.
func (t *Truth) ExpectedEvents(s *Selection, after, through int64) []Event {
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

// StateAt returns the objects of a selection at a revision. The caller owns the map, but not the
// states.
func (t *Truth) StateAt(s *Selection, revision int64) map[Key]*State {
	all := maps.Clone(t.Initial)
	if all == nil {
		all = map[Key]*State{}
	}
	for i := range t.Changes {
		c := &t.Changes[i]
		if c.Revision > revision {
			break
		}
		Apply(all, c.Key, c.After)
	}
	maps.DeleteFunc(all, func(k Key, state *State) bool { return !s.Matches(k, state) })
	return all
}

// Apply changes objects: it sets the state of an object, or removes the object if state is nil.
func Apply(objects map[Key]*State, k Key, state *State) {
	if state == nil {
		delete(objects, k)
		return
	}
	objects[k] = state
}
