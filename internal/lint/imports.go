package lint

import (
	"fmt"
	"slices"
	"strings"
)

// imports checks the direction of imports among internal packages, in tests
// too. Each package has a place of its own, a nested one as well. Code outside
// internal may import all of it. The external tests of a package may import the
// packages nested in it: a fake stands below the package whose interface it has.
func imports(t *Tree, order []Place) []Finding {
	ranks := make(map[string]int, len(order))
	for rank, place := range order {
		ranks[place.Name] = rank
	}
	var found []Finding
	unplaced := make(map[string]bool)
	for _, file := range t.Go {
		from := internalPackage(file.Dir())
		if from == "" {
			continue
		}
		if _, placed := ranks[from]; !placed {
			if !unplaced[from] {
				unplaced[from] = true
				found = append(found, Finding{Key: "internal/" + from, Text: "has no place in the order of packages: give it one in internal/lint/tables.go"})
			}
			continue
		}
		for _, imported := range importPaths(file) {
			dir, own := strings.CutPrefix(imported, t.Module+"/")
			to := internalPackage(dir)
			if !own || to == "" || to == from || isExternalTest(file) && within(to, from) {
				continue
			}
			if reason := forbidden(order, ranks, from, to); reason != "" {
				found = append(found, Finding{Key: file.Name, Text: fmt.Sprintf("imports internal/%s: %s", to, reason)})
			}
		}
	}
	return found
}

// forbidden returns why package from may not import package to, or the empty
// string if it may.
func forbidden(order []Place, ranks map[string]int, from, to string) string {
	place := order[ranks[from]]
	if place.Apart && !slices.Contains(place.Except, to) {
		return fmt.Sprintf("internal/%s stands apart from the others", from)
	}
	if rank, placed := ranks[to]; placed && rank > ranks[from] {
		return fmt.Sprintf("it stands below internal/%s, imports go up", from)
	}
	return ""
}

// isExternalTest reports whether a file belongs to a package such as cache_test.
func isExternalTest(file *File) bool {
	return file.IsTest() && strings.HasSuffix(file.Syntax.Name.Name, "_test")
}

// emptyPlaces finds places in the order whose package does not exist.
func emptyPlaces(t *Tree, order []Place) []Finding {
	packages := make(map[string]bool)
	for _, file := range t.Go {
		packages[internalPackage(file.Dir())] = true
	}
	var found []Finding
	for _, place := range order {
		if !packages[place.Name] {
			found = append(found, Finding{Key: "internal/" + place.Name, Text: "has a place in the order of packages but no Go files: remove it from internal/lint/tables.go"})
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
