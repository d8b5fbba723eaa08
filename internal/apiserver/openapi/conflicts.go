package openapi

import (
	"fmt"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/apiserver/openapi/publish"
)

// occupiedNames are the places where specs have paths and schemas.
type occupiedNames struct {
	// paths have the form "/apis/group/version/". models are prefixes of the names of
	// schemas.
	paths, models map[string]bool
}

// occupiedBy collects the places that specs occupy.
//
// Upstream: k8s.io/kube-openapi/pkg/aggregator.mergeSpecs; compare at each upgrade.
func occupiedBy(specs []*spec.Swagger) *occupiedNames {
	o := &occupiedNames{paths: map[string]bool{}, models: map[string]bool{}}
	for _, s := range specs {
		if s.Paths != nil {
			for path := range s.Paths.Paths {
				if parts := strings.SplitN(path, "/", 5); len(parts) >= 4 {
					o.paths["/"+parts[1]+"/"+parts[2]+"/"+parts[3]+"/"] = true
				}
			}
		}
		for name := range s.Definitions {
			o.models[name[:strings.LastIndexByte(name, '.')+1]] = true
		}
	}
	return o
}

// conflicts reports whether a group version has a place that is occupied.
func (o *occupiedNames) conflicts(group, version string) bool {
	return o.paths["/apis/"+group+"/"+version+"/"] || o.models[publish.ModelPrefix(group, version)]
}

// baseSplit is what a base has to know of a view.
type baseSplit struct {
	// remote is what the split was made with.
	remote *occupiedNames
	// conflicting are the definitions whose names or paths another definition, a local server
	// or a service has too.
	conflicting []*crd.Definition
	// shapes are the shapes of the other definitions.
	shapes []publish.Shape
	// key identifies conflicting and shapes.
	key string
}

// splitBy divides the view's definitions. The result is kept for one remote. local is the same
// in all calls.
func (v *view) splitBy(local, remote *occupiedNames) *baseSplit {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.split != nil && v.mu.split.remote == remote {
		return v.mu.split
	}
	found := &baseSplit{remote: remote}
	found.conflicting, found.shapes = v.divide(local, remote)
	sum := newContentHash(fmt.Sprint(found.shapes))
	for _, d := range found.conflicting {
		sum.addDefinition(d)
	}
	found.key = sum.tag()
	v.mu.split = found
	return found
}

// divide returns the definitions that conflict with one another or with occupied names, and the
// Shapes of all other definitions.
func (v *view) divide(all ...*occupiedNames) ([]*crd.Definition, []publish.Shape) {
	kinds := map[string]int{}
	for _, g := range v.groups {
		for _, m := range g.all {
			kinds[g.path+" "+m.Wanted.Kind]++
			kinds[g.path+" "+m.Wanted.ListKind]++
		}
	}
	apart := map[string]bool{}
	for _, g := range v.groups {
		for _, m := range g.all {
			met := kinds[g.path+" "+m.Wanted.Kind] > 1 || kinds[g.path+" "+m.Wanted.ListKind] > 1
			for _, o := range all {
				met = met || o.conflicts(m.Group, m.version.Name)
			}
			if met {
				apart[m.Name] = true
			}
		}
	}
	var definitions []*crd.Definition
	var rest []member
	for _, d := range v.published {
		if apart[d.Name] {
			definitions = append(definitions, d)
			continue
		}
		for _, version := range d.Versions {
			if version.Served {
				rest = append(rest, member{d, version})
			}
		}
	}
	return definitions, shapes(rest)
}
