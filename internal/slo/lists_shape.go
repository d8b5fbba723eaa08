package slo

import (
	"slices"
	"strings"
)

// The values of Shape.Path that are not a way of the cache to objects.
const (
	// PathPassedOn is that of requests that Kubernetes' handlers answered.
	PathPassedOn = "passed on"
	// PathFailed is that of LISTs that ended with an error before anything was found.
	PathFailed = "failed"
)

// The values of Shape.Scope and Shape.Revision.
const (
	ScopeCluster   = "cluster"
	ScopeNamespace = "namespace"
	ScopeName      = "name"

	RevisionUnset    = "unset"
	RevisionAny      = "0"
	RevisionExact    = "exact"
	RevisionAtLeast  = "at least"
	RevisionContinue = "continue"
)

const (
	// maxShapeWord and maxSelectors bound the words of a shape, in bytes. The longest
	// names of resources, which end in their group, are cut.
	maxShapeWord = 128
	maxSelectors = 128
)

// Revision is what a request says of the revision that it wants.
func Revision(resourceVersion, match, token string) string {
	switch {
	case token != "":
		return RevisionContinue
	case resourceVersion == "":
		return RevisionUnset
	case match == "Exact":
		return RevisionExact
	case resourceVersion == "0":
		return RevisionAny
	}
	return RevisionAtLeast
}

// Selectors are the keys of selectors, sorted, as a Shape has them.
func Selectors(labels, fields []string) string {
	if len(labels)+len(fields) == 0 {
		return ""
	}
	var b strings.Builder
	part := func(name string, keys []string) {
		if len(keys) == 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		b.WriteString(name)
		slices.Sort(keys)
		for i, key := range slices.Compact(keys) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteByte(' ')
			b.WriteString(key)
			if b.Len() > maxSelectors {
				return
			}
		}
	}
	part("labels:", labels)
	part("fields:", fields)
	return cut(b.String(), maxSelectors)
}

// bound cuts the words that clients choose.
func (s *Shape) bound() {
	s.Resource, s.Version = cut(s.Resource, maxShapeWord), cut(s.Version, maxShapeWord)
	s.Selectors, s.Encoding = cut(s.Selectors, maxSelectors), cut(s.Encoding, maxShapeWord)
}

// clone lets go of what the words were cut from, such as a long path.
func (s Shape) clone() Shape {
	for _, word := range []*string{&s.Verb, &s.Resource, &s.Version, &s.Scope, &s.Selectors, &s.Revision, &s.Encoding, &s.Path, &s.Reason} {
		*word = strings.Clone(*word)
	}
	return s
}

// keys are those of a shape's selectors of one kind, "labels" or "fields".
func (s *Shape) keys(kind string) []string {
	for part := range strings.SplitSeq(s.Selectors, "; ") {
		if rest, ok := strings.CutPrefix(part, kind+": "); ok {
			return strings.Split(rest, ", ")
		}
	}
	return nil
}
