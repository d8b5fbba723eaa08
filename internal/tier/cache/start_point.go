package cache

import "strings"

// Scope is the set of keys that a watch covers.
type Scope struct {
	// Prefix begins the keys: "" for all, or "namespace/". With Single it is the only
	// key.
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
	// Initial is the state that is sent first, as ADDED events. Nil sends none.
	Initial *Snapshot
	// After is a revision: the watch sends the events with larger revisions.
	After int64
}
