package kube

import (
	"maps"
	"net/http"
	"strings"
	"sync/atomic"

	restful "github.com/emicklei/go-restful/v3"
)

// router selects routes as restful.CurlyRouter does, and remembers its selections.
// CurlyRouter compares a path with all routes of its group version, several hundred for
// v1, which is a fifteenth of a write's cost.
//
// If a path leads to exactly one path template, the selection depends only on the template,
// the method and the media types. router finds the template in a tree, and caches
// CurlyRouter's answer there. It leaves all other paths to CurlyRouter, so it cannot
// select another route than upstream. The zero value is ready to use.
//
// Upstream: github.com/emicklei/go-restful/v3.CurlyRouter.SelectRoute; compare at each upgrade.
type router struct {
	restful.CurlyRouter
	tree atomic.Pointer[templateTree]
}

const (
	// maxSelections bounds the selections that are remembered for a template. Clients use
	// few media types.
	maxSelections = 16
	// maxMedia bounds the length of the media types of a remembered selection, in bytes.
	maxMedia = 256
)

// SelectRoute implements restful.RouteSelector. The services must not change during the
// call, nor get routes once they serve.
func (r *router) SelectRoute(services []*restful.WebService, req *http.Request) (*restful.WebService, *restful.Route, error) {
	tree := r.tree.Load()
	if !tree.builtFrom(services) {
		tree = newTemplateTree(services)
		r.tree.Store(tree)
	}
	template := tree.find(req.URL.Path)
	if template == nil {
		return r.CurlyRouter.SelectRoute(services, req)
	}
	key := selectionKey{req.Method, req.Header.Get(restful.HEADER_ContentType), req.Header.Get(restful.HEADER_Accept)}
	if selected, ok := template.lookup(key); ok {
		return selected.service, selected.route, nil
	}
	service, route, err := r.CurlyRouter.SelectRoute(services, req)
	if err == nil {
		template.remember(key, selection{service, route})
	}
	return service, route, err
}

// selectionKey is what selects a route of a template.
type selectionKey struct{ method, contentType, accept string }

type selection struct {
	service *restful.WebService
	route   *restful.Route
}

// template is a node in the tree of all route paths. Each level is a path segment: a
// name, or a parameter.
type template struct {
	named     map[string]*template
	parameter *template
	// ambiguous says that the tree does not decide what follows. Both a name and a
	// parameter may match, or a segment is an expression, such as one for the rest of a
	// path.
	ambiguous bool
	// hasRoute says that a route ends here. conditional says that a route which ends here
	// decides by itself whether it matches.
	hasRoute, conditional bool

	selections atomic.Pointer[map[selectionKey]selection]
}

// lookup returns a remembered selection.
func (t *template) lookup(q selectionKey) (selection, bool) {
	known := t.selections.Load()
	if known == nil {
		return selection{}, false
	}
	s, ok := (*known)[q]
	return s, ok
}

// remember stores a selection while there is room. A selection that a concurrent call
// overwrites is stored again later.
func (t *template) remember(q selectionKey, s selection) {
	if len(q.contentType)+len(q.accept) > maxMedia {
		return
	}
	known := map[selectionKey]selection{}
	if before := t.selections.Load(); before != nil {
		if len(*before) >= maxSelections {
			return
		}
		known = maps.Clone(*before)
	}
	known[q] = s
	t.selections.Store(&known)
}

// templateTree is the tree of the route paths of some services.
type templateTree struct {
	services []*restful.WebService
	root     template
}

// builtFrom reports whether the tree was built from a container's services. A container
// appends to its list, and copies it to remove one. So equal length and first element mean
// an unchanged list.
func (t *templateTree) builtFrom(services []*restful.WebService) bool {
	return t != nil && len(t.services) == len(services) && (len(services) == 0 || &t.services[0] == &services[0])
}

func newTemplateTree(services []*restful.WebService) *templateTree {
	t := &templateTree{services: services}
	for _, service := range services {
		// Added even without a route: a path below it leads to no other service.
		t.add(service.RootPath())
		for _, route := range service.Routes() {
			if end := t.add(route.Path); end != nil {
				end.hasRoute = true
				end.conditional = end.conditional || len(route.If) > 0
			}
		}
	}
	return t
}

// add inserts a path and returns its node. It returns nil if the tree cannot decide about
// the path.
func (t *templateTree) add(path string) *template {
	at := &t.root
	for segment := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		switch inner, isParameter := strings.CutPrefix(segment, "{"); {
		case segment == "":
			return at
		case strings.Contains(segment, ":") || strings.Contains(segment, "{") && !(isParameter && strings.Index(inner, "}") == len(inner)-1):
			at.ambiguous = true
			return nil
		case isParameter:
			if at.parameter == nil {
				at.parameter = &template{}
			}
			at.ambiguous = at.ambiguous || len(at.named) > 0
			at = at.parameter
		default:
			if at.named[segment] == nil {
				if at.named == nil {
					at.named = map[string]*template{}
				}
				at.named[segment] = &template{}
			}
			at.ambiguous = at.ambiguous || at.parameter != nil
			at = at.named[segment]
		}
	}
	return at
}

// find returns the template of a path. It returns nil if the path is unknown or
// ambiguous. Paths with empty segments are left to CurlyRouter.
func (t *templateTree) find(path string) *template {
	rest, rooted := strings.CutPrefix(path, "/")
	if !rooted {
		return nil
	}
	at := &t.root
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "" || at.ambiguous {
			return nil
		}
		next := at.named[segment]
		if next == nil {
			next = at.parameter
		}
		if next == nil {
			return nil
		}
		at = next
	}
	if !at.hasRoute || at.conditional {
		return nil
	}
	return at
}
