package auditlog

import (
	"bytes"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// Request is what a request URI asks for. Its bytes are parts of the URI: they share its memory,
// and are still escaped.
type Request struct {
	// Group, Version and Resource are nil for a path of no resource, such as /healthz. Group is
	// nil for the core group, too.
	Group, Version, Resource, Subresource []byte
	Namespace, Name                       []byte

	ResourceVersion, Match, Limit               []byte
	LabelSelector, FieldSelector, ShardSelector []byte
	// Continue, Bookmarks and InitialEvents say whether the parameters continue,
	// allowWatchBookmarks and sendInitialEvents are there and true.
	Continue, Bookmarks, InitialEvents bool
}

// ParseURI returns what the path and the parameters of a request ask for. It ignores parameters
// that it does not know.
func ParseURI(uri []byte) (r Request) {
	path, query, _ := bytes.Cut(uri, []byte{'?'})
	r.parsePath(path)
	for len(query) > 0 {
		var pair []byte
		pair, query, _ = bytes.Cut(query, []byte{'&'})
		name, value, _ := bytes.Cut(pair, []byte{'='})
		switch string(name) {
		case "resourceVersion":
			r.ResourceVersion = value
		case "resourceVersionMatch":
			r.Match = value
		case "limit":
			r.Limit = value
		case "continue":
			r.Continue = len(value) > 0
		case "labelSelector":
			r.LabelSelector = value
		case "fieldSelector":
			r.FieldSelector = value
		case "shardSelector":
			r.ShardSelector = value
		case "allowWatchBookmarks":
			r.Bookmarks = isTrue(value)
		case "sendInitialEvents":
			r.InitialEvents = isTrue(value)
		}
	}
	return r
}

func isTrue(value []byte) bool { return string(value) == "true" || string(value) == "1" }

// parsePath reads /api/VERSION/… and /apis/GROUP/VERSION/….
func (r *Request) parsePath(path []byte) {
	next := func() []byte {
		var part []byte
		part, path, _ = bytes.Cut(bytes.TrimLeft(path, "/"), []byte{'/'})
		return part
	}
	switch string(next()) {
	case "api":
	case "apis":
		r.Group = next()
	default:
		return
	}
	version, resource := next(), next()
	if string(resource) == "watch" { // the old path of watches
		resource = next()
	}
	if len(resource) == 0 {
		r.Group = nil
		return
	}
	r.Version, r.Resource = version, resource
	name := next()
	if string(resource) == "namespaces" && len(name) > 0 {
		if inside := next(); len(inside) > 0 && string(inside) != "status" && string(inside) != "finalize" {
			r.Namespace, r.Resource = name, inside
			name = next()
			r.Subresource = next()
		} else {
			r.Subresource = inside
		}
		r.Name = name
		return
	}
	r.Name, r.Subresource = name, next()
}

// Scope returns the serverreport.Shape.Scope of the request.
func (r *Request) Scope() string {
	switch {
	case len(r.Name) > 0:
		return serverreport.ScopeName
	case len(r.Namespace) > 0:
		return serverreport.ScopeNamespace
	}
	return serverreport.ScopeCluster
}

// RevisionMode returns the serverreport.Shape.Revision of the request.
func (r *Request) RevisionMode() string {
	switch {
	case r.Continue:
		return serverreport.RevisionContinue
	case len(r.ResourceVersion) == 0:
		return serverreport.RevisionUnset
	case string(r.Match) == "Exact":
		return serverreport.RevisionExact
	case string(r.ResourceVersion) == "0":
		return serverreport.RevisionAny
	}
	return serverreport.RevisionAtLeast
}

// Selectors returns the serverreport.Shape.Selectors of escaped selectors. A selector that cannot
// be parsed has no keys.
func Selectors(label, field, shard string) string {
	var byLabel, byField, byShard []string
	if text, err := url.QueryUnescape(label); err == nil {
		if selector, err := labels.Parse(text); err == nil {
			requirements, _ := selector.Requirements()
			for i := range requirements {
				byLabel = append(byLabel, requirements[i].Key())
			}
		}
	}
	if text, err := url.QueryUnescape(field); err == nil {
		if selector, err := fields.ParseSelector(text); err == nil {
			for _, r := range selector.Requirements() {
				byField = append(byField, r.Field)
			}
		}
	}
	if text, err := url.QueryUnescape(shard); err == nil && text != "" {
		_, rest, _ := strings.Cut(text, "(")
		key, _, _ := strings.Cut(rest, ",")
		byShard = []string{key}
	}
	return serverreport.FormatSelectors(byLabel, byField, byShard...)
}
