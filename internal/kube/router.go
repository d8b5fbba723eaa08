package kube

import (
	"maps"
	"net/http"
	"strings"
	"sync/atomic"

	restful "github.com/emicklei/go-restful/v3"
)

// router remembers what restful.CurlyRouter selects. That compares a path with those
// of all routes of its group version, several hundred for v1, which is a fifteenth of
// what a write costs. Where a path leads to one template, what is selected depends on
// nothing but that, the method and the media types.
//
// Its zero value is ready to use. What it does not know it asks CurlyRouter.
type router struct {
	restful.CurlyRouter
	tree atomic.Pointer[templateTree]
}

const (
	// maxSelections are remembered of a template: clients ask in a few ways.
	maxSelections = 16
	// maxMedia is the length of what is remembered of a request's media types.
	maxMedia = 256
)

// SelectRoute implements restful.RouteSelector. The services do not change while it
// runs, and get no more routes once they serve.
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
	if s, ok := template.lookUp(key); ok {
		return s.service, s.route, nil
	}
	service, route, err := r.CurlyRouter.SelectRoute(services, req)
	if err == nil {
		template.remember(key, selection{service, route})
	}
	return service, route, err
}

// selectionKey is what a route is selected by, beside the path.
type selectionKey struct{ method, contentType, accept string }

type selection struct {
	service *restful.WebService
	route   *restful.Route
}

// template is a place in the tree of all paths of routes, segment by segment. A segment
// of a path leads on by its name, or is a parameter's value.
type template struct {
	named     map[string]*template
	parameter *template
	// ambiguous is one behind which the tree does not tell what matches: both a name and a
	// parameter could, or there is an expression, such as that of the rest of a path.
	ambiguous bool
	// hasRoute says that a route ends here, conditional that one decides by itself whether
	// it is meant.
	hasRoute, conditional bool

	selections atomic.Pointer[map[selectionKey]selection]
}

// lookUp looks a question up.
func (t *template) lookUp(q selectionKey) (selection, bool) {
	known := t.selections.Load()
	if known == nil {
		return selection{}, false
	}
	s, ok := (*known)[q]
	return s, ok
}

// remember keeps an answer as long as there is room. One that another request
// replaces at the same time is found again.
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

// templateTree are those of services.
type templateTree struct {
	services []*restful.WebService
	root     template
}

// builtFrom tells a container's services as they were: it adds at the end, and copies them to
// remove one.
func (t *templateTree) builtFrom(services []*restful.WebService) bool {
	return t != nil && len(t.services) == len(services) && (len(services) == 0 || &t.services[0] == &services[0])
}

func newTemplateTree(services []*restful.WebService) *templateTree {
	t := &templateTree{services: services}
	for _, service := range services {
		// Also where it has no route: a path below leads to no other service.
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

// add returns where a path ends, nil if the tree does not tell.
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

// find returns the template of a path, nil if that is not known. How empty segments are
// taken is left to CurlyRouter.
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
