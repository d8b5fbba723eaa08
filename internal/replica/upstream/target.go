package upstream

import (
	"net/url"
	"time"
)

// Target is a document of discovery or OpenAPI with its parameters, as the upstream is asked
// for it. TargetOf alone makes one.
type Target struct{ path, query string }

// maxTarget bounds the bytes of a path and a query of which a Target is made.
const maxTarget = 512

// TargetOf returns the document that a client's URL names. It returns false for parameters whose
// meaning for the document is not known. The parameter timeout, which client-go sends, has none.
// It also returns false for a path that is not written as IsDocument reads it. The right to the
// document is asked for the path as it is, and rules match the beginnings of paths.
func TargetOf(u *url.URL) (Target, bool) {
	if u.EscapedPath() != u.Path || !IsDocument(u.Path) || len(u.Path)+len(u.RawQuery) > maxTarget {
		return Target{}, false
	}
	if u.RawQuery == "" {
		return Target{path: u.Path}, true
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Target{}, false
	}
	for name, values := range query {
		switch {
		case len(values) > 1:
			return Target{}, false
		case name == "timeout":
			if limit, err := time.ParseDuration(values[0]); err != nil || limit <= 0 {
				return Target{}, false
			}
			delete(query, name)
		case name != "hash" && name != "pretty":
			return Target{}, false
		}
	}
	return Target{u.Path, query.Encode()}, true
}

// Path returns the path, to which the client must have a right.
func (t Target) Path() string { return t.path }

// Len returns the bytes of the path and the query.
func (t Target) Len() int { return len(t.path) + len(t.query) }
