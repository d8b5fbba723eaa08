package lint

import (
	"fmt"
	"slices"
	"strings"
)

// house is a table of wings that can be looked up by package.
type house struct {
	wings []Wing
	// places has each package by its path below internal.
	places map[string]place
}

// place is where a package stands: the index of its wing, and its own within the wing.
type place struct{ wing, rank int }

func newHouse(wings []Wing) *house {
	h := &house{wings: wings, places: map[string]place{}}
	for i, wing := range wings {
		for rank, name := range wing.Order {
			h.places[name] = place{i, rank}
		}
	}
	return h
}

// imports checks the direction of imports among internal packages, in tests
// too. Each package has a place of its own, a nested one as well. Code outside
// internal may import all of it. The external tests of a package may import the
// packages nested in it: a fake stands below the package whose interface it has.
func imports(t *Tree, h *house) []Finding {
	var found []Finding
	unplaced := make(map[string]bool)
	for _, file := range t.Go {
		from := internalPackage(file.Dir())
		if from == "" {
			continue
		}
		if _, placed := h.places[from]; !placed {
			if !unplaced[from] {
				unplaced[from] = true
				found = append(found, Finding{Key: "internal/" + from, Text: "belongs to no wing: give it a place in " + wingsFile})
			}
			continue
		}
		for _, imported := range importPaths(file) {
			dir, own := strings.CutPrefix(imported, t.Module+"/")
			to := internalPackage(dir)
			if !own || to == "" || to == from || isExternalTest(file) && isWithin(to, from) {
				continue
			}
			if reason := h.forbidden(from, to); reason != "" {
				found = append(found, Finding{Key: file.Name, Text: fmt.Sprintf("imports internal/%s: %s", to, reason)})
			}
		}
	}
	return found
}

// forbidden returns why package from may not import package to, or the empty
// string if it may. A package without a place is reported by itself.
func (h *house) forbidden(from, to string) string {
	target, placed := h.places[to]
	if !placed {
		return ""
	}
	source := h.places[from]
	wing, other := h.wings[source.wing], h.wings[target.wing]
	switch {
	case source.wing != target.wing && !slices.Contains(wing.Imports, other.Name):
		return fmt.Sprintf("wing %s may not import wing %s", wing.Name, other.Name)
	case source.wing == target.wing && target.rank > source.rank:
		return fmt.Sprintf("it stands behind internal/%s in wing %s", from, wing.Name)
	}
	return ""
}

// isExternalTest reports whether a file belongs to a package such as cache_test.
func isExternalTest(file *File) bool {
	return file.IsTest() && strings.HasSuffix(file.Syntax.Name.Name, "_test")
}

// wingTable checks the table of wings itself: each package exists, a wing imports only
// the wings before it, and the overview has its sentence.
func wingTable(t *Tree, h *house) []Finding {
	packages := make(map[string]bool)
	for _, file := range t.Go {
		packages[internalPackage(file.Dir())] = true
	}
	overview := ""
	for _, file := range t.Other {
		if file.Name == overviewFile {
			overview = string(file.Data)
		}
	}
	var found []Finding
	before := map[string]bool{}
	for _, wing := range h.wings {
		for _, name := range wing.Order {
			if !packages[name] {
				found = append(found, Finding{Key: "internal/" + name, Text: "has a place in wing " + wing.Name + " but no Go files: remove it from " + wingsFile})
			}
		}
		for _, imported := range wing.Imports {
			if !before[imported] {
				found = append(found, Finding{Key: wing.Name, Text: "may import wing " + imported + ", which does not stand before it"})
			}
		}
		before[wing.Name] = true
		if !strings.Contains(overview, wing.Sentence) {
			found = append(found, Finding{Key: overviewFile, Text: fmt.Sprintf("lacks the sentence of wing %s: %s", wing.Name, wing.Sentence)})
		}
	}
	return found
}

// internalPackage returns the path of a directory below internal: "cache", or
// "bench/list" for a nested package. It is empty for a directory outside.
func internalPackage(dir string) string {
	name, _ := strings.CutPrefix(dir, "internal/")
	if name == dir {
		return ""
	}
	return name
}

// importGroups finds files whose imports of this module are not a group of their own, after
// all others. gofmt leaves groups as they are.
func importGroups(t *Tree) []Finding {
	var found []Finding
	for _, file := range t.Go {
		var groups [][]bool // whether imports are of this module, by group
		line := 0
		for _, spec := range file.Syntax.Imports {
			if len(groups) == 0 || t.line(spec.Pos()) > line+1 {
				groups = append(groups, nil)
			}
			last := len(groups) - 1
			groups[last] = append(groups[last], isWithin(strings.Trim(spec.Path.Value, "\""), t.Module))
			line = t.line(spec.End())
		}
		for i, group := range groups {
			if slices.Contains(group, true) && (i < len(groups)-1 || slices.Contains(group, false)) {
				found = append(found, Finding{Key: file.Name, Text: "imports of this module are not a group of their own at the end"})
			}
		}
	}
	return found
}
