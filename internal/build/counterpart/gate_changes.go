package counterpart

import (
	"io"
	"maps"
	"slices"
)

// CompareGates writes, by package, the feature gates that were added, removed or changed
// between two sets of modules. It writes each gate once, though k8s.io/kubernetes repeats the
// gates of its parts.
func CompareGates(w io.Writer, from, to *Modules) error {
	out := &printer{w: w}
	written := map[string]bool{}
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
		names := maps.Clone(before)
		maps.Copy(names, after)
		unchanged := 0
		for _, name := range slices.Sorted(maps.Keys(names)) {
			line := gateChange(name, before, after)
			switch {
			case written[name]:
			case line == "":
				unchanged++
			default:
				out.printf("%s\n", line)
			}
			written[name] = true
		}
		out.printf("%d more are unchanged.\n", unchanged)
	}
	return compareUse(out, from, to)
}

// compareUse writes the gates that the read path consults in the new version only. Each needs a
// row in GatesFile, and perhaps a change of our code.
func compareUse(out *printer, from, to *Modules) error {
	before, err := from.readPathGates()
	if err != nil {
		return err
	}
	after, err := to.readPathGates()
	if err != nil {
		return err
	}
	gates, err := to.allGates()
	if err != nil {
		return err
	}
	out.printf("\n## New on the read path\n")
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if gate, isGate := gates[name]; isGate && before[name] == "" {
			out.printf("%s: %s, consulted by %s\n", name, gate, after[name])
		}
	}
	return out.err
}

// gateChange returns a line about a gate, or "" if its state is the same.
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
