package openapi

import (
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/crd"
	"github.com/millrace/millrace/internal/openapi/transcode"
)

// view is the definitions that are published, at one moment. It is immutable.
type view struct {
	// published are in order of their names.
	published []*crd.Definition
	// groups are the group versions by their path, "apis/group/version".
	groups map[string]*groupVersion

	v2 struct {
		sync.Mutex
		split *baseSplit
		// tag is that of the v2 document on a base.
		base *base
		tag  string
	}
}

// groupVersion is a v3 document.
type groupVersion struct {
	path string
	// all serve the group version; members are those with a kind of their own.
	all, members []member
	// tag identifies the document's content.
	tag string
}

// member is a definition in one of its served versions.
type member struct {
	*crd.Definition
	version crd.Version
}

// viewTracker follow the catalog.
type viewTracker struct {
	catalog        Catalog
	programVersion string
	changes        atomic.Uint64
	mu             struct {
		sync.Mutex
		view    *view
		changes uint64
	}
}

// get returns a view that is as new as the catalog.
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

// newDuplicateKinds finds members whose kinds were seen before: Kubernetes' names
// controller accepts one of them, yet both may be established.
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

// shapes are those of versions, each once.
func shapes(members []member) []transcode.Shape {
	seen := map[transcode.Shape]bool{}
	var found []transcode.Shape
	for _, m := range members {
		s := transcode.ShapeOf(m.Scope, m.version)
		if !seen[s] {
			seen[s] = true
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b transcode.Shape) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return found
}

// contentHash identifies content by what it is made from.
type contentHash struct{ hash.Hash }

func newContentHash(parts ...string) contentHash {
	s := contentHash{sha512.New()}
	for _, p := range parts {
		s.addText(p)
	}
	return s
}

func (s contentHash) addText(t string) {
	s.addNumber(uint64(len(t)))
	_, _ = s.Write([]byte(t)) // a hash never fails
}

func (s contentHash) addNumber(n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	_, _ = s.Write(b[:])
}

func (s contentHash) addDefinition(d *crd.Definition) {
	s.addText(d.Name)
	s.addNumber(d.Spec)
}

// sum64 is for where a collision costs little.
func (s contentHash) sum64() uint64 { return binary.BigEndian.Uint64(s.Sum(nil)) }

// tag is written as Kubernetes writes its own.
func (s contentHash) tag() string { return fmt.Sprintf("%X", s.Sum(nil)) }
