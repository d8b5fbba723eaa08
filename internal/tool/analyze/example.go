package analyze

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// SentShape is the shape of requests, with further properties that a log has.
type SentShape struct {
	serverreport.Shape
	// Source is where kube-apiserver takes the objects from: "cache" or "etcd".
	Source string `json:"source"`
	// Bookmarks and InitialEvents are parameters of watches.
	Bookmarks     bool `json:"bookmarks,omitempty"`
	InitialEvents bool `json:"initialEvents,omitempty"`
}

// isInitial reports whether the requests read a collection from its start, as a program does
// when it starts.
func (s *SentShape) isInitial() bool {
	fresh := s.Revision == serverreport.RevisionUnset || s.Revision == serverreport.RevisionAny
	return s.Verb == "list" && fresh || s.Verb == "watch" && (s.InitialEvents || fresh)
}

// Example returns a request of the shape, with … for values.
func (s *SentShape) Example() string {
	if s.Version == "" {
		return strings.ToUpper(s.Verb) + " " + s.Resource
	}
	method := map[string]string{"list": "GET", "get": "GET", "watch": "GET", "create": "POST", "update": "PUT",
		"deletecollection": "DELETE"}[s.Verb]
	if method == "" {
		method = strings.ToUpper(s.Verb)
	}
	uri := method + " " + requestPath(&s.Shape)
	if parameters := s.parameters(); len(parameters) > 0 {
		uri += "?" + strings.Join(parameters, "&")
	}
	return uri
}

// requestPath returns the path of a request of the shape, with … for names.
func requestPath(s *serverreport.Shape) string {
	resource, subresource, _ := strings.Cut(s.Resource, "/")
	resource, group, _ := strings.Cut(resource, ".")
	parts := []string{"/api", s.Version}
	if group != "" {
		parts = []string{"/apis", group, s.Version}
	}
	switch {
	case s.Scope == serverreport.ScopeNamespace, s.Scope == serverreport.ScopeName && !slices.Contains(clusterScoped, resource):
		parts = append(parts, "namespaces", "…", resource)
	default:
		parts = append(parts, resource)
	}
	if s.Scope == serverreport.ScopeName {
		parts = append(parts, "…")
	}
	if subresource != "" {
		parts = append(parts, subresource)
	}
	return strings.Join(parts, "/")
}

// clusterScoped are built-in resources without a namespace that clients often read by name. A shape
// with the scope of a name does not say whether its resource has namespaces.
var clusterScoped = []string{
	"nodes", "namespaces", "persistentvolumes", "clusterroles", "clusterrolebindings", "customresourcedefinitions", "storageclasses", "csinodes", "csidrivers",
	"priorityclasses", "runtimeclasses", "volumeattachments", "apiservices", "ingressclasses", "flowschemas", "prioritylevelconfigurations",
}

// parameters returns the parameters of a request of the shape, as in "limit=500".
func (s *SentShape) parameters() (all []string) {
	add := func(name, value string) { all = append(all, name+"="+value) }
	for _, kind := range []string{"labels", "fields"} {
		var terms []string
		for _, key := range s.SelectorKeys(kind) {
			terms = append(terms, key+"=…")
		}
		if len(terms) > 0 {
			add(strings.TrimSuffix(kind, "s")+"Selector", strings.Join(terms, ","))
		}
	}
	if s.Limit > 0 {
		add("limit", fmt.Sprint(s.Limit))
	}
	switch s.Revision {
	case serverreport.RevisionAny:
		add("resourceVersion", "0")
	case serverreport.RevisionAtLeast:
		add("resourceVersion", "…")
	case serverreport.RevisionExact:
		add("resourceVersion", "…")
		add("resourceVersionMatch", "Exact")
	case serverreport.RevisionContinue:
		add("continue", "…")
	}
	if s.Verb == "watch" {
		add("watch", "true")
		if s.InitialEvents {
			add("sendInitialEvents", "true")
		}
		if s.Bookmarks {
			add("allowWatchBookmarks", "true")
		}
	}
	return all
}

// watchExample returns an example of a watch that can replace LISTs of a shape.
func watchExample(s serverreport.Shape) string {
	s.Verb, s.Revision, s.Limit = "watch", serverreport.RevisionAtLeast, 0
	watch := SentShape{Shape: s, Bookmarks: true}
	return watch.Example()
}
