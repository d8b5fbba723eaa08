package analyze

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// example writes a request of a shape, with … for values.
func example(s *serverreport.Shape, watch watchParameters) string {
	if s.Version == "" {
		return strings.ToUpper(s.Verb) + " " + s.Resource
	}
	method := map[string]string{"list": "GET", "get": "GET", "watch": "GET", "create": "POST", "update": "PUT", "deletecollection": "DELETE"}[s.Verb]
	if method == "" {
		method = strings.ToUpper(s.Verb)
	}
	uri := method + " " + path(s)
	if parameters := parameters(s, watch); len(parameters) > 0 {
		uri += "?" + strings.Join(parameters, "&")
	}
	return uri
}

// watchParameters are parameters of watches.
type watchParameters struct{ bookmarks, initialEvents bool }

func path(s *serverreport.Shape) string {
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

// clusterScoped are built-in resources without a namespace that clients often read by name.
var clusterScoped = []string{
	"nodes", "namespaces", "persistentvolumes", "clusterroles", "clusterrolebindings", "customresourcedefinitions", "storageclasses", "csinodes", "csidrivers",
	"priorityclasses", "runtimeclasses", "volumeattachments", "apiservices", "ingressclasses", "flowschemas", "prioritylevelconfigurations",
}

func parameters(s *serverreport.Shape, watch watchParameters) (all []string) {
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
		if watch.initialEvents {
			add("sendInitialEvents", "true")
		}
		if watch.bookmarks {
			add("allowWatchBookmarks", "true")
		}
	}
	return all
}

// example is the request of a row.
func (r *row) example() string {
	return example(&r.Shape, watchParameters{r.Bookmarks, r.InitialEvents})
}

// watchExample is a watch in place of LISTs of a shape.
func watchExample(s serverreport.Shape) string {
	s.Verb, s.Revision, s.Limit = "watch", serverreport.RevisionAtLeast, 0
	return example(&s, watchParameters{bookmarks: true})
}
