package verify

import (
	"fmt"
	"maps"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// difference is an object in which a list differs from a state.
type difference struct {
	key watchcheck.Key
	// want is the object in the state, nil if the object is absent or not selected.
	want *watchcheck.State
	// versions are the object's version in the list and its version in the state, as far as
	// there are such.
	versions []version
	text     string
}

// wantText returns the object of the state as text.
func (d *difference) wantText(t *truth) string {
	if d.want == nil {
		return "no " + d.key.Name
	}
	return t.describe(d.key, d.want)
}

// findDifference returns one difference between the objects of a list and the selected objects
// of a state. It returns nil if there is none. It does not change the state.
func findDifference(all map[watchcheck.Key]*watchcheck.State, selection *watchcheck.Selection, got []Object) *difference {
	want := maps.Clone(all)
	maps.DeleteFunc(want, func(k watchcheck.Key, state *watchcheck.State) bool { return !selection.Matches(k, state) })
	seen := map[watchcheck.Key]bool{}
	for i := range got {
		o := &got[i]
		state := want[o.Key]
		d := &difference{key: o.Key, want: state, versions: []version{{o.Key, o.Revision}}}
		if now := all[o.Key]; now != nil {
			d.versions = append(d.versions, version{o.Key, now.Revision})
		}
		switch {
		case seen[o.Key]:
			d.text = fmt.Sprintf("%s comes twice", o.Key.Name)
			return d
		case state == nil:
			d.text = fmt.Sprintf("it has %s of revision %d, which is not selected or was not there", o.Key.Name, o.Revision)
			return d
		case state.Revision != o.Revision:
			d.text = fmt.Sprintf("it has %s of revision %d, which is of %d", o.Key.Name, o.Revision, state.Revision)
			return d
		}
		seen[o.Key] = true
	}
	for key, state := range want {
		if !seen[key] {
			return &difference{key, state, []version{{key, state.Revision}}, fmt.Sprintf("it lacks %s of revision %d", key.Name, state.Revision)}
		}
	}
	return nil
}
