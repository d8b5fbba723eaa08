package verify

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

type version struct {
	key      watchcheck.Key
	revision int64
}

// truth is the history of one resource, as answers to writes and the rest of the history
// tell it.
type truth struct {
	watchcheck.Truth
	// writes are the writes that made versions. A version without one was made by a write of
	// unknown outcome, or by somebody else.
	writes map[version]*Write
	// shownValues are the values that reads and watches have shown.
	shownValues map[string]bool
	// deletions are the revisions of deletions whose answers came.
	deletions map[*Write]int64
	// firsts are the lowest known revisions of each object, by its identity.
	firsts map[types.UID]int64
	// values are what the versions are.
	values map[version]statement
	// returned are the writes of known revision, and ofObjects those of each object.
	returned  returnedWrites
	ofObjects map[watchcheck.Key]*returnedWrites
	// changesOf are the changes of each object.
	changesOf map[watchcheck.Key][]*watchcheck.Change
	// now is the state at the revision at, and next the first change behind it.
	now  map[watchcheck.Key]*watchcheck.State
	at   int64
	next int
	// conflicts are versions that two answers tell differently.
	conflicts []conflict
}

// statement is what an answer tells of a version: its value, or that it is a deletion.
type statement struct {
	value   string
	deleted bool
	by      teller
}

func (x statement) String() string {
	if x.deleted {
		return "deleted"
	}
	return fmt.Sprintf("%q", x.value)
}

// conflict is a version of an object that two tell differently.
type conflict struct {
	version
	one, other statement
}

// note notes what a version is. Where two tell it differently, there is a conflict.
func (t *truth) note(v version, value, half string, by teller) {
	if known, ok := t.values[v]; ok {
		if known.value != value {
			t.conflicts = append(t.conflicts, conflict{v, known, statement{value: value, by: by}})
		}
		return
	}
	t.values[v] = statement{value: value, by: by}
	t.shownValues[value] = true
	state := &watchcheck.State{
		Revision: v.revision, Labels: labels.Set{valueLabel: value, halfLabel: half}, Fields: fields.Set{"metadata.name": v.key.Name},
	}
	t.Changes = append(t.Changes, watchcheck.Change{Revision: v.revision, Key: v.key, After: state})
}

// truthOf makes the history of a resource.
func (r *run) truthOf(resource string) *truth {
	t := &truth{
		writes: map[version]*Write{}, shownValues: map[string]bool{}, deletions: map[*Write]int64{}, values: map[version]statement{},
	}
	t.From, t.Through = r.began, r.record.newest()
	for _, w := range r.record.mu.writes {
		if w.Key.resource != resource {
			continue
		}
		if w.done() && w.Revision > 0 {
			v := version{w.Key.Key, w.Revision}
			t.writes[v] = w
			t.note(v, w.Value, w.Half, w)
		}
	}
	r.noteReads(t, resource)
	r.noteWatches(t, resource)
	t.chain()
	t.findDeletions(r.record, resource)
	t.index(r.record.mu.writes, resource)
	return t
}

// index makes what checks look up.
func (t *truth) index(writes []*Write, resource string) {
	t.ofObjects, t.changesOf = map[watchcheck.Key]*returnedWrites{}, map[watchcheck.Key][]*watchcheck.Change{}
	for i := range t.Changes {
		c := &t.Changes[i]
		t.changesOf[c.Key] = append(t.changesOf[c.Key], c)
	}
	sorted := slices.Clone(writes)
	slices.SortStableFunc(sorted, func(a, b *Write) int { return cmp.Compare(a.Returned, b.Returned) })
	for _, w := range sorted {
		if w.Key.resource != resource || !w.done() || t.revision(w) == 0 {
			continue
		}
		if t.ofObjects[w.Key.Key] == nil {
			t.ofObjects[w.Key.Key] = &returnedWrites{}
		}
		t.returned.add(t, w)
		t.ofObjects[w.Key.Key].add(t, w)
	}
}

// returnedWrites are writes in the order in which they returned, and for each of them the one of
// the highest revision among it and those before.
type returnedWrites struct{ writes, newest []*Write }

func (r *returnedWrites) add(t *truth, w *Write) {
	newest := w
	if n := len(r.newest); n > 0 && t.revision(r.newest[n-1]) > t.revision(w) {
		newest = r.newest[n-1]
	}
	r.writes, r.newest = append(r.writes, w), append(r.newest, newest)
}

// before is the write of the highest revision that had returned at a time, nil if none had.
func (r *returnedWrites) before(at time.Duration) *Write {
	if r == nil {
		return nil
	}
	i, _ := slices.BinarySearchFunc(r.writes, at, func(w *Write, at time.Duration) int { return cmp.Compare(w.Returned, at) })
	if i == 0 {
		return nil
	}
	return r.newest[i-1]
}

// state is the state at a revision. Revisions that follow each other in rising order are
// cheap. The caller must not change it.
func (t *truth) state(revision int64) map[watchcheck.Key]*watchcheck.State {
	if t.now == nil || revision < t.at {
		t.now, t.next = map[watchcheck.Key]*watchcheck.State{}, 0
	}
	for ; t.next < len(t.Changes) && t.Changes[t.next].Revision <= revision; t.next++ {
		if c := &t.Changes[t.next]; c.After == nil {
			delete(t.now, c.Key)
		} else {
			t.now[c.Key] = c.After
		}
	}
	t.at = revision
	return t.now
}

func (r *run) noteReads(t *truth, resource string) {
	for _, read := range r.record.mu.reads {
		if read.Resource != resource {
			continue
		}
		for i := range read.Objects {
			o := &read.Objects[i]
			t.note(version{o.Key, o.Revision}, o.Value, o.Half, read)
		}
	}
}

// noteWatches notes the versions in events. An event that says that an object was deleted
// tells of that only if the watch does not select by labels.
func (r *run) noteWatches(t *truth, resource string) {
	deleted := map[version]teller{}
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
				t.note(v, f.Labels[valueLabel], f.Labels[halfLabel], w)
			case f.Type == watchcheck.Deleted && w.Select != selectLabel && deleted[v] == nil:
				deleted[v] = w
				t.Changes = append(t.Changes, watchcheck.Change{Revision: f.Revision, Key: f.Key})
			}
		}
	}
	for v, by := range deleted {
		if known, ok := t.values[v]; ok {
			t.conflicts = append(t.conflicts, conflict{v, known, statement{deleted: true, by: by}})
		}
	}
}

// chain orders the changes, and gives each the state before it.
func (t *truth) chain() {
	slices.SortStableFunc(t.Changes, func(a, b watchcheck.Change) int { return cmp.Compare(a.Revision, b.Revision) })
	now := map[watchcheck.Key]*watchcheck.State{}
	for i := range t.Changes {
		c := &t.Changes[i]
		c.Before = now[c.Key]
		now[c.Key] = c.After
	}
}

// findDeletions finds the revision of each deletion whose answer came: it ended the object
// of the identity in the answer.
func (t *truth) findDeletions(record *record, resource string) {
	t.firsts = map[types.UID]int64{}
	seen := func(uid types.UID, revision int64) {
		if first := t.firsts[uid]; uid != "" && revision > 0 && (first == 0 || revision < first) {
			t.firsts[uid] = revision
		}
	}
	writes := record.mu.writes
	for _, w := range writes {
		if w.Key.resource == resource && w.done() && w.Verb != remove {
			seen(w.UID, w.Revision)
		}
	}
	for _, r := range record.mu.reads {
		for i := range r.Objects {
			if r.Resource == resource {
				seen(r.Objects[i].UID, r.Objects[i].Revision)
			}
		}
	}
	ends := map[watchcheck.Key][]int64{}
	for i := range t.Changes {
		if c := &t.Changes[i]; c.After == nil {
			ends[c.Key] = append(ends[c.Key], c.Revision)
		}
	}
	for _, w := range writes {
		if w.Key.resource != resource || w.Verb != remove || !w.done() {
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

// shown reports whether an answer has shown what a write wrote.
func (t *truth) shown(w *Write) bool { return t.shownValues[w.Value] }

// revision is that of a write whose answer came, and 0 if it is not known.
func (t *truth) revision(w *Write) int64 {
	if w.Verb == remove {
		return t.deletions[w]
	}
	return w.Revision
}

// during reports whether an object was as a GET tells, at some revision from least on.
// nil is an object that was not there.
func (t *truth) during(key watchcheck.Key, got *Object, least int64) bool {
	var state *watchcheck.State
	matches := func() bool {
		if got == nil {
			return state == nil
		}
		return state != nil && state.Revision == got.Revision
	}
	for _, c := range t.changesOf[key] {
		if c.Revision > least && matches() {
			return true
		}
		state = c.After
	}
	return matches()
}

func (v version) String() string { return fmt.Sprintf("%s at revision %d", v.key.Name, v.revision) }
