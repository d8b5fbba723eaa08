package crds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// compareStored compares the objects and definitions of this run in the two etcds. It retries,
// because controllers may still write to definitions.
func (r *run) compareStored(*step) {
	r.eventually(func() (string, error) {
		normalisers := r.normalisers.fork()
		prefixes := []string{"/registry/" + r.group + "/"}
		for _, group := range slices.Sorted(maps.Values(r.defined)) {
			prefixes = append(prefixes, "/registry/"+group+"/")
		}
		for _, name := range slices.Sorted(maps.Keys(r.defined)) {
			prefixes = append(prefixes, "/registry/apiextensions.k8s.io/customresourcedefinitions/"+name)
		}
		prefixes = slices.Compact(prefixes)
		var shown [2]string
		entryCount := 0
		for i, side := range r.pair.sides {
			var out strings.Builder
			for _, prefix := range prefixes {
				entries, err := side.stored(prefix)
				if err != nil {
					return "", err
				}
				for _, e := range entries {
					s := scope{definitions: strings.HasPrefix(e[0], "/registry/apiextensions.k8s.io/")}
					plain, err := normalisers[i].body([]byte(e[1]), s)
					if err != nil {
						plain = fmt.Sprintf("no JSON: %q", e[1])
					}
					fmt.Fprintf(&out, "\nkey %s\n%s", normalisers[i].text(e[0]), plain)
				}
			}
			shown[i] = out.String()
			entryCount = strings.Count(shown[i], "\nkey ")
		}
		mismatch := textDifference(shown)
		if mismatch == "" {
			r.pair.objects.Add(int64(entryCount))
		}
		return mismatch, nil
	})
}
