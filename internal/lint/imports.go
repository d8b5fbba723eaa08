package lint

import (
	"fmt"
	"strings"
)

// imports checks the direction of imports among internal packages, in tests
// too. Packages below one directory of internal count as one. Code outside
// internal may import all of it.
func imports(t *Tree, order []Place) []Finding {
	places := make(map[string]int, len(order))
	for i, place := range order {
		places[place.Name] = i
	}
	var found []Finding
	unknown := make(map[string]bool)
	for _, file := range t.Go {
		from := internalPackage(file.Dir())
		if from == "" {
			continue
		}
		if _, known := places[from]; !known {
			if !unknown[from] {
				unknown[from] = true
				found = append(found, Finding{Key: "internal/" + from, Text: "has no place in the order of packages: give it one in internal/lint/tables.go"})
			}
			continue
		}
		for _, imported := range importPaths(file) {
			rest, own := strings.CutPrefix(imported, t.Module+"/")
			to := internalPackage(rest)
			if !own || to == "" || to == from {
				continue
			}
			if reason := forbidden(order, places, from, to); reason != "" {
				found = append(found, Finding{Key: file.Name, Text: fmt.Sprintf("imports internal/%s: %s", to, reason)})
			}
		}
	}
	return found
}

// forbidden says why one package may not import another; empty if it may.
func forbidden(order []Place, places map[string]int, from, to string) string {
	at, known := places[to]
	place := order[places[from]]
	if place.Apart {
		for _, name := range place.Except {
			if name == to {
				return ""
			}
		}
		return fmt.Sprintf("internal/%s stands apart from the others", from)
	}
	if known && at > places[from] {
		return fmt.Sprintf("it stands below internal/%s, imports go up", from)
	}
	return ""
}

// internalPackage is the name below internal that a directory belongs to;
// empty for a directory outside.
func internalPackage(dir string) string {
	rest, found := strings.CutPrefix(dir, "internal/")
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}
