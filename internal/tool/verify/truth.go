package verify

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// version identifies a version of an object, or its deletion.
type version struct {
	key      watchcheck.Key
	revision int64
}

func (v version) String() string { return fmt.Sprintf("%s at revision %d", v.key.Name, v.revision) }

// truth is the history of one resource. It is derived from the record alone: values and
// revisions from all answers, deletions from events.
//
// The servers under test are thus the source of what they are compared with. Answers that
// contradict each other are conflicts. A fault that all answers share is not found.
type truth struct {
	watchcheck.Truth
	// writes has the writes that made versions. A version without one was made by a write of
	// unknown outcome, or by somebody else.
	writes map[version]*Write
	// values has what the first answer with a version says of it. shownValues has all values.
	values      map[version]statement
	shownValues map[string]bool
	// deletions has the revisions of acknowledged deletions, as far as they are known.
	deletions map[*Write]int64
	// firsts has the lowest known revision of each object.
	firsts map[types.UID]int64
	// returned has the acknowledged writes of known revision, for all objects and for each.
	returned      returnedWrites
	returnedByKey map[watchcheck.Key]*returnedWrites
	changesByKey  map[watchcheck.Key][]*watchcheck.Change
	conflicts     []conflict
	// cursor is the result of the last call of stateAt.
	cursor struct {
		state    map[watchcheck.Key]*watchcheck.State
		revision int64
		next     int // index of the first change after revision
	}
}

// statement is what an answer says of a version: its value, or that it is a deletion.
type statement struct {
	value     string
	isDeleted bool
	source    recordedRequest
}

func (x statement) String() string {
	if x.isDeleted {
		return "deleted"
	}
	return fmt.Sprintf("%q", x.value)
}

// conflict is a version of which two answers say different things.
type conflict struct {
	version
	one, other statement
}

// newTruth returns the history of a resource, from a record that is complete.
func (r *run) newTruth(resource string) *truth {
	t := &truth{
		writes: map[version]*Write{}, values: map[version]statement{}, shownValues: map[string]bool{}, deletions: map[*Write]int64{},
	}
	t.From = r.firstRevision
	t.Through = r.record.newestRevision()
	for _, w := range r.record.mu.writes {
		if w.Key.resource == resource && w.isAcknowledged() && w.Revision > 0 {
			v := version{w.Key.Key, w.Revision}
			t.writes[v] = w
			t.addVersion(v, w.Value, w.Half, w)
		}
	}
	r.addReadVersions(t, resource)
	r.addWatchVersions(t, resource)
	t.sortChanges()
	t.findFirsts(r.record, resource)
	t.findDeletions(r.record, resource)
	t.buildIndexes(r.record, resource)
	return t
}

// addVersion adds a version of an object as an answer shows it. If another answer has shown it
// with another value, it adds a conflict.
func (t *truth) addVersion(v version, value, half string, source recordedRequest) {
	if known, ok := t.values[v]; ok {
		if known.value != value {
			t.conflicts = append(t.conflicts, conflict{v, known, statement{value: value, source: source}})
		}
		return
	}
	t.values[v] = statement{value: value, source: source}
	t.shownValues[value] = true
	state := &watchcheck.State{
		Revision: v.revision, Labels: labels.Set{valueLabel: value, halfLabel: half}, Fields: fields.Set{"metadata.name": v.key.Name},
	}
	t.Changes = append(t.Changes, watchcheck.Change{Revision: v.revision, Key: v.key, After: state})
}

// addReadVersions adds the versions in GETs and LISTs.
func (r *run) addReadVersions(t *truth, resource string) {
	for _, read := range r.record.mu.reads {
		if read.Resource != resource {
			continue
		}
		for i := range read.Objects {
			o := &read.Objects[i]
			t.addVersion(version{o.Key, o.Revision}, o.Value, o.Half, read)
		}
	}
}

// addWatchVersions adds the versions and the deletions in events. In a watch with a label
// selector, a DELETED event may also mean that the object left the selection: it is not used.
func (r *run) addWatchVersions(t *truth, resource string) {
	deleted := map[version]recordedRequest{}
	for _, w := range r.record.mu.watches {
		if w.Resource != resource {
			continue
		}
		for i := range w.watch.Frames {
			f := &w.watch.Frames[i]
			v := version{f.Key, f.Revision}
			switch {
			case f.Opaque:
			case f.Type == watchcheck.Added, f.Type == watchcheck.Modified:
				t.addVersion(v, f.Labels[valueLabel], f.Labels[halfLabel], w)
			case f.Type == watchcheck.Deleted && w.Select != selectLabel && deleted[v] == nil:
				deleted[v] = w
				t.Changes = append(t.Changes, watchcheck.Change{Revision: f.Revision, Key: f.Key})
			}
		}
	}
	for v, source := range deleted {
		if known, ok := t.values[v]; ok {
			t.conflicts = append(t.conflicts, conflict{v, known, statement{isDeleted: true, source: source}})
		}
	}
}

// sortChanges sorts the changes by revision, and sets the state before each.
func (t *truth) sortChanges() {
	slices.SortStableFunc(t.Changes, func(a, b watchcheck.Change) int { return cmp.Compare(a.Revision, b.Revision) })
	now := map[watchcheck.Key]*watchcheck.State{}
	for i := range t.Changes {
		c := &t.Changes[i]
		c.Before = now[c.Key]
		now[c.Key] = c.After
	}
}

// findFirsts finds the lowest revision of each object, by its UID, in answers to writes and reads.
func (t *truth) findFirsts(rec *record, resource string) {
	t.firsts = map[types.UID]int64{}
	add := func(uid types.UID, revision int64) {
		if first := t.firsts[uid]; uid != "" && revision > 0 && (first == 0 || revision < first) {
			t.firsts[uid] = revision
		}
	}
	for _, w := range rec.mu.writes {
		if w.Key.resource == resource && w.isAcknowledged() && w.Verb != remove {
			add(w.UID, w.Revision)
		}
	}
	for _, r := range rec.mu.reads {
		for i := range r.Objects {
			if r.Resource == resource {
				add(r.Objects[i].UID, r.Objects[i].Revision)
			}
		}
	}
}

// findDeletions finds the revision of each acknowledged deletion. The answer has the object's
// UID: the deletion is the first deletion of that name after the object's first revision.
func (t *truth) findDeletions(rec *record, resource string) {
	ends := map[watchcheck.Key][]int64{}
	for i := range t.Changes {
		if c := &t.Changes[i]; c.After == nil {
			ends[c.Key] = append(ends[c.Key], c.Revision)
		}
	}
	for _, w := range rec.mu.writes {
		if w.Key.resource != resource || w.Verb != remove || !w.isAcknowledged() {
			continue
		}
		if first := t.firsts[w.UID]; first > 0 {
			all := ends[w.Key.Key]
			if i, _ := slices.BinarySearch(all, first); i < len(all) {
				t.deletions[w] = all[i]
			}
		}
	}
}

// buildIndexes sets changesByKey, returned and returnedByKey.
func (t *truth) buildIndexes(rec *record, resource string) {
	t.changesByKey = map[watchcheck.Key][]*watchcheck.Change{}
	for i := range t.Changes {
		c := &t.Changes[i]
		t.changesByKey[c.Key] = append(t.changesByKey[c.Key], c)
	}
	t.returnedByKey = map[watchcheck.Key]*returnedWrites{}
	sorted := slices.Clone(rec.mu.writes)
	slices.SortStableFunc(sorted, func(a, b *Write) int { return cmp.Compare(a.Returned, b.Returned) })
	for _, w := range sorted {
		if w.Key.resource != resource || !w.isAcknowledged() || t.revision(w) == 0 {
			continue
		}
		if t.returnedByKey[w.Key.Key] == nil {
			t.returnedByKey[w.Key.Key] = &returnedWrites{}
		}
		t.returned.add(t, w)
		t.returnedByKey[w.Key.Key].add(t, w)
	}
}

// stateAt returns all objects at a revision. Calls with rising revisions are cheap. The caller
// must not change the map, which is valid until the next call.
func (t *truth) stateAt(revision int64) map[watchcheck.Key]*watchcheck.State {
	c := &t.cursor
	if c.state == nil || revision < c.revision {
		c.state = map[watchcheck.Key]*watchcheck.State{}
		c.next = 0
	}
	for ; c.next < len(t.Changes) && t.Changes[c.next].Revision <= revision; c.next++ {
		change := &t.Changes[c.next]
		watchcheck.Apply(c.state, change.Key, change.After)
	}
	c.revision = revision
	return c.state
}

// isShown reports whether an answer has shown the value of a write.
func (t *truth) isShown(w *Write) bool { return t.shownValues[w.Value] }

// revision returns the revision of an acknowledged write, 0 if it is not known.
func (t *truth) revision(w *Write) int64 {
	if w.Verb == remove {
		return t.deletions[w]
	}
	return w.Revision
}

// matchesSince reports whether an object was as a GET shows it, at some revision from least on.
// A nil result of the GET matches an absent object.
func (t *truth) matchesSince(key watchcheck.Key, got *Object, least int64) bool {
	var state *watchcheck.State
	matches := func() bool {
		if got == nil {
			return state == nil
		}
		return state != nil && state.Revision == got.Revision
	}
	for _, c := range t.changesByKey[key] {
		if c.Revision > least && matches() {
			return true
		}
		state = c.After
	}
	return matches()
}

// maker returns the write that made a version, or the deletion that ended the object at its
// revision. It returns nil if the write is not known.
func (t *truth) maker(v version) *Write {
	if w := t.writes[v]; w != nil {
		return w
	}
	for w, revision := range t.deletions {
		if revision == v.revision && w.Key.Key == v.key {
			return w
		}
	}
	return nil
}

// makerSteps returns the steps of the writes that made versions, as far as they are known.
func (t *truth) makerSteps(r *run, versions ...version) (steps []Step) {
	for _, v := range versions {
		if w := t.maker(v); w != nil {
			steps = append(steps, w.step(r))
		}
	}
	return steps
}

// describe returns a state of an object as text. A nil state is an absent object.
func (t *truth) describe(key watchcheck.Key, state *watchcheck.State) string {
	if state == nil {
		return "no " + key.Name
	}
	value := cmp.Or(t.values[version{key, state.Revision}].value, key.Name)
	return fmt.Sprintf("%s of revision %d", value, state.Revision)
}
