package serverreport

import (
	"slices"
	"strings"
)

// Shape is what similar requests have in common. It is comparable, so it can be a key.
type Shape struct {
	// Verb is "get" or "list".
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	Version  string `json:"version"`
	// Scope is "cluster", "namespace" or "name".
	Scope string `json:"scope"`
	// Selectors has the keys without their values, as in "labels: app; fields: spec.nodeName;
	// shard: object.metadata.uid".
	Selectors string `json:"selectors,omitempty"`
	// Revision is "unset", "0", "exact", "at least" or "continue".
	Revision string `json:"revision"`
	// Limit is the limit of the request. It is 0 without a limit.
	Limit int64 `json:"limit,omitempty"`
	// Encoding is as in "json", "protobuf gzip", "table", "metadata".
	Encoding string `json:"encoding"`
	// Path is how the cache found objects: "key", "range", "index" or "scan". It is
	// PathFailed, PathPassedOn or PathShared for requests without such a path.
	Path string `json:"path"`
	// Reason is why the request was passed on. It is "" unless Path is PathPassedOn or
	// PathShared.
	Reason string `json:"reason,omitempty"`
}

// Values of Shape.Path for requests whose objects the cache did not find.
const (
	// PathPassedOn is for requests that Kubernetes' handlers answered, or the upstream of a
	// replica.
	PathPassedOn = "passed on"
	// PathShared is for requests that a replica would have passed on. It answered them with the
	// answer to an equal request that it passed on.
	PathShared = "shared"
	// PathFailed is for LISTs that ended with an error before objects were found.
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
	// maxShapeWord and maxSelectors bound the words of a shape, in bytes. maxShapeWord cuts the
	// longest names of resources, at the end of the group.
	maxShapeWord = 128
	maxSelectors = 128
)

// RevisionMode returns the Shape.Revision of a request. token is its continue token.
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

// FormatSelectors returns the Shape.Selectors of the keys of selectors, cut to maxSelectors. It
// sorts the keys in place. shards has one key at most.
func FormatSelectors(labels, fields []string, shards ...string) string {
	if len(labels)+len(fields)+len(shards) == 0 {
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
	part("shard:", shards)
	return truncate(b.String(), maxSelectors)
}

// Truncate cuts the words that clients choose, in place.
func (s *Shape) Truncate() {
	s.Resource, s.Version = truncate(s.Resource, maxShapeWord), truncate(s.Version, maxShapeWord)
	s.Selectors, s.Encoding = truncate(s.Selectors, maxSelectors), truncate(s.Encoding, maxShapeWord)
}

// Clone copies the words, so that they do not keep a long path in memory.
func (s Shape) Clone() Shape {
	for _, word := range []*string{&s.Verb, &s.Resource, &s.Version, &s.Scope, &s.Selectors, &s.Revision, &s.Encoding, &s.Path, &s.Reason} {
		*word = strings.Clone(*word)
	}
	return s
}

// SelectorKeys returns the keys of one kind, "labels" or "fields". It inverts FormatSelectors,
// which may have cut the last key.
func (s *Shape) SelectorKeys(kind string) []string {
	for part := range strings.SplitSeq(s.Selectors, "; ") {
		if rest, ok := strings.CutPrefix(part, kind+": "); ok {
			return strings.Split(rest, ", ")
		}
	}
	return nil
}
