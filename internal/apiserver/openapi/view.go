package openapi

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/apiserver/openapi/publish"
)

// view is the definitions that are published at one moment. It is immutable except for mu.
// A document is put together from one view. It is begun again with a new view if a definition
// is no longer known as the view has it.
type view struct {
	// published are in the order of their names.
	published []*crd.Definition
	// groups are the group versions by path, "apis/group/version".
	groups map[string]*groupVersion

	mu struct {
		sync.Mutex
		// split is the last result of splitBy.
		split *baseSplit
		// tag is the entity tag of the v2 document on base.
		base *base
		tag  string
	}
}

// groupVersion is a group version that has a v3 document.
type groupVersion struct {
	path string
	// all are the definitions that serve the group version. members leaves out
	// definitions whose kind an earlier definition has.
	all, members []member
	// tag identifies the content of the document.
	tag string
}

// member is a definition in one of its served versions.
type member struct {
	*crd.Definition
	version crd.Version
}

// viewTracker makes a new view when the catalog has changed since the last.
type viewTracker struct {
	catalog        Catalog
	programVersion string
	// changes counts the changes of the catalog.
	changes atomic.Uint64
	mu      struct {
		sync.Mutex
		// view has at least the changes up to this number.
		view    *view
		changes uint64
	}
}

// get returns a view that is at least as new as the catalog was when get was called.
func (v *viewTracker) get() *view {
	changes := v.changes.Load()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.view == nil || v.mu.changes < changes {
		v.mu.view, v.mu.changes = newView(v.catalog.All(), v.programVersion), changes
	}
	return v.mu.view
}

func newView(all []*crd.Definition, program string) *view {
	v := &view{groups: map[string]*groupVersion{}}
	for _, d := range all {
		if d.Established {
			v.published = append(v.published, d)
		}
	}
	sort.Slice(v.published, func(i, j int) bool { return v.published[i].Name < v.published[j].Name })
	for _, d := range v.published {
		for _, version := range d.Versions {
			if !version.Served {
				continue
			}
			path := "apis/" + d.Group + "/" + version.Name
			if v.groups[path] == nil {
				v.groups[path] = &groupVersion{path: path}
			}
			v.groups[path].all = append(v.groups[path].all, member{d, version})
		}
	}
	for _, g := range v.groups {
		g.members = slices.DeleteFunc(slices.Clone(g.all), newDuplicateKinds())
		sum := newContentHash(program, "v3")
		for _, m := range g.members {
			sum.addDefinition(m.Definition)
		}
		g.tag = sum.tag()
	}
	return v
}

// newDuplicateKinds returns a function that reports members whose kind it has seen
// before. Two definitions of one kind may both be established, although Kubernetes
// accepts the names of only one.
func newDuplicateKinds() func(member) bool {
	seen := map[string]bool{}
	return func(m member) bool {
		if seen[m.Wanted.Kind] || seen[m.Wanted.ListKind] {
			return true
		}
		seen[m.Wanted.Kind], seen[m.Wanted.ListKind] = true, true
		return false
	}
}

// shapes returns the Shapes of members, each once and in a fixed order.
func shapes(members []member) []publish.Shape {
	seen := map[publish.Shape]bool{}
	var found []publish.Shape
	for _, m := range members {
		s := publish.ShapeOf(m.Scope, m.version)
		if !seen[s] {
			seen[s] = true
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b publish.Shape) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return found
}
