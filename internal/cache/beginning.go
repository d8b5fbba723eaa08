package cache

import "strings"

// Scope is the keys that a watch is about.
type Scope struct {
	// Prefix begins them: "" for all, "namespace/". With Single it is the only one.
	Prefix string
	Single bool
}

// Holds reports whether a key is in the scope.
func (s Scope) Holds(key string) bool {
	if s.Single {
		return key == s.Prefix
	}
	return strings.HasPrefix(key, s.Prefix)
}

// StartPoint is where a watch begins.
type StartPoint struct {
	Scope
	// Initial is what is sent first, as ADDED events. Nil sends nothing.
	Initial *Snapshot
	// After is the revision behind which events follow.
	After int64
}
