package report

import (
	"slices"
	"strings"
)

// Shape is what requests have in common.
type Shape struct {
	// Verb is "get" or "list".
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	Version  string `json:"version"`
	// Scope is "cluster", "namespace" or "name".
	Scope string `json:"scope"`
	// Selectors are the keys without their values, as in "labels: app; fields: spec.nodeName".
	Selectors string `json:"selectors,omitempty"`
	// Revision is "unset", "0", "exact", "at least" or "continue".
	Revision string `json:"revision"`
	// Limit is the request's, 0 for none.
	Limit int64 `json:"limit,omitempty"`
	// Encoding is as in "json", "protobuf gzip", "table", "metadata".
	Encoding string `json:"encoding"`
	// Path is how objects were found: "key", "range", "index" or "scan"; "failed" is that
	// of a LIST that ended with an error before, and "passed on" one of Kubernetes'
	// handler.
	Path string `json:"path"`
	// Reason is why a request was passed on.
	Reason string `json:"reason,omitempty"`
}

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

// RevisionMode is what a request says of the revision that it wants.
func RevisionMode(resourceVersion, match, token string) string {
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

// FormatSelectors are the keys of selectors, sorted, as a Shape has them.
func FormatSelectors(labels, fields []string) string {
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
	return truncate(b.String(), maxSelectors)
}

// Truncate cuts the words that clients choose.
func (s *Shape) Truncate() {
	s.Resource, s.Version = truncate(s.Resource, maxShapeWord), truncate(s.Version, maxShapeWord)
	s.Selectors, s.Encoding = truncate(s.Selectors, maxSelectors), truncate(s.Encoding, maxShapeWord)
}

// Clone lets go of what the words were cut from, such as a long path.
func (s Shape) Clone() Shape {
	for _, word := range []*string{&s.Verb, &s.Resource, &s.Version, &s.Scope, &s.Selectors, &s.Revision, &s.Encoding, &s.Path, &s.Reason} {
		*word = strings.Clone(*word)
	}
	return s
}

// SelectorKeys are those of a shape's selectors of one kind, "labels" or "fields".
func (s *Shape) SelectorKeys(kind string) []string {
	for part := range strings.SplitSeq(s.Selectors, "; ") {
		if rest, ok := strings.CutPrefix(part, kind+": "); ok {
			return strings.Split(rest, ", ")
		}
	}
	return nil
}
