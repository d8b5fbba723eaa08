package upstream

import (
	"io"
	"maps"
	"slices"
)

// CompareGates writes which feature gates came, went or changed their state between two
// sets of modules, by package.
func CompareGates(w io.Writer, from, to *Modules) error {
	out := &printer{w: w}
	for _, importPath := range GatePackages {
		before, err := from.Gates(importPath)
		if err != nil {
			return err
		}
		after, err := to.Gates(importPath)
		if err != nil {
			return err
		}
		out.printf("\n## Feature gates of %s\n", importPath)
		changed := 0
		for _, name := range allNames(before, after) {
			if line := gateChange(name, before, after); line != "" {
				out.printf("%s\n", line)
				changed++
			}
		}
		out.printf("%d of %d unchanged.\n", len(allNames(before, after))-changed, len(allNames(before, after)))
	}
	return out.err
}

func allNames(before, after map[string]Gate) []string {
	return slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for _, gates := range []map[string]Gate{before, after} {
			for name := range maps.Keys(gates) {
				if !yield(name) {
					return
				}
			}
		}
	}))
}

// gateChange returns a line about a gate, or the empty string if its state is the same.
func gateChange(name string, before, after map[string]Gate) string {
	was, had := before[name]
	now, has := after[name]
	switch {
	case !had:
		return "+ " + name + ": " + now.String()
	case !has:
		return "- " + name + ": was " + was.String()
	case was != now:
		return "~ " + name + ": " + was.String() + " -> " + now.String()
	}
	return ""
}
