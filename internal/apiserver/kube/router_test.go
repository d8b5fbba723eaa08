package kube

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
)

// testServices makes services as Kubernetes installs them, and others that it could
// install: with expressions, conditions, services within others, names beside parameters.
func testServices() []*restful.WebService {
	service := func(root string, routes ...string) *restful.WebService {
		ws := new(restful.WebService).Path(root).Consumes("*/*").Produces("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
		for _, route := range routes {
			words := strings.Fields(route)
			b := ws.Method(words[0]).Path(words[1]).Operation(route).To(func(*restful.Request, *restful.Response) {})
			switch words[len(words)-1] {
			case "patch":
				b.Consumes("application/json-patch+json", "application/apply-patch+yaml")
			case "stream":
				b.Produces("application/json;stream=watch")
			case "if":
				b.If(func(req *http.Request) bool { return req.URL.RawQuery == "" })
			}
			ws.Route(b)
		}
		return ws
	}
	return []*restful.WebService{
		service("/api/v1", "GET /", "GET /pods", "GET /watch/pods stream",
			"GET /namespaces/{namespace}/pods", "POST /namespaces/{namespace}/pods", "DELETE /namespaces/{namespace}/pods",
			"GET /namespaces/{name}", "PUT /namespaces/{name}", "PATCH /namespaces/{name} patch", "PUT /namespaces/{name}/finalize",
			"GET /nodes/{name} if", "PUT /nodes/{name}", "GET /nodes/{name}/status", "GET /nodes/{name}/status if",
			"GET /nodes/{name}/proxy", "POST /nodes/{name}/proxy", "GET /nodes/{name}/proxy/{path:*}",
			"GET /odd/pods/{name}", "GET /odd/{name}/status",
			"GET /even/{name}/status", "GET /even/pods/{name}",
			"GET /words/{name:[a-z]+}"),
		service("/apis", "GET /", "GET /{group}"),
		service("/apis/apps/v1",
			"GET /namespaces/{namespace}/deployments/{name}", "PATCH /namespaces/{namespace}/deployments/{name} patch",
			"POST /namespaces/{namespace}/deployments/{name:[a-z]+}", "POST /verbs/{name}:start"),
		service("/things", "GET /{name}"),
		service("/things/empty"),
		service("/version", "GET /"),
	}
}

// randomRequest requests a path that some service has, or one that differs a little.
func randomRequest(r *rand.Rand) *http.Request {
	words := []string{"api", "apis", "v1", "apps", "namespaces", "pods", "nodes", "proxy", "watch", "odd", "deployments", "verbs", "version", "status", "finalize", "a", "b:start", "1", ""}
	paths := []string{
		"/api/v1", "/api/v1/pods", "/api/v1/namespaces/*/pods", "/api/v1/namespaces/*", "/api/v1/namespaces/*/finalize", "/api/v1/watch/pods",
		"/api/v1/nodes/*", "/api/v1/nodes/*/status", "/api/v1/nodes/*/proxy", "/api/v1/nodes/*/proxy/*/*", "/api/v1/odd/*/*", "/api/v1/odd/pods/status",
		"/api/v1/even/*/*", "/api/v1/even/pods/status", "/api/v1/words/*", "/apis", "/things/*", "/things/empty", "/apis/apps", "/apis/*",
		"/apis/apps/v1", "/apis/apps/v1/namespaces/*/deployments/*", "/apis/apps/v1/verbs/*", "/version",
	}
	segments := strings.Split(paths[r.IntN(len(paths))], "/")
	for i, segment := range segments {
		if i > 0 && (segment == "*" || r.IntN(20) == 0) {
			segments[i] = words[r.IntN(len(words))]
		}
	}
	if r.IntN(10) == 0 {
		segments = append(segments, words[r.IntN(len(words))])
	}
	path := strings.Join(segments, "/")
	req := httptest.NewRequest([]string{"GET", "PUT", "POST", "PATCH", "DELETE"}[r.IntN(5)], "/", nil)
	req.URL.Path = path
	if r.IntN(8) == 0 {
		req.URL.RawQuery = "a=b"
	}
	for header, values := range map[string][]string{
		"Accept":       {"", "application/json", "application/json;stream=watch", "text/plain", "application/yaml, */*"},
		"Content-Type": {"", "application/json", "application/apply-patch+yaml", "text/plain"},
	} {
		if value := values[r.IntN(len(values))]; value != "" {
			req.Header.Set(header, value)
		}
	}
	return req
}

// TestRouterEqualsCurlyRouter compares selections with those of CurlyRouter over random
// requests, so that most of ours come from memory.
func TestRouterEqualsCurlyRouter(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	services := testServices()
	ours, rememberable := &router{}, 0
	for i := range 40_000 {
		if i == 20_000 {
			// Other services with the same routes: remembered selections must not be used.
			services = append(slices.Clone(services[1:]), testServices()[0])
		}
		req := randomRequest(r)
		wantService, wantRoute, wantErr := restful.CurlyRouter{}.SelectRoute(services, req)
		template := newTemplateTree(services).find(req.URL.Path)
		service, route, err := ours.SelectRoute(services, req)
		if service != wantService || !sameRoute(route, wantRoute) || !sameError(err, wantErr) {
			t.Fatalf("%s %s %v: %v, %v, want %v, %v", req.Method, req.URL, req.Header, route, err, wantRoute, wantErr)
		}
		if template != nil && err == nil {
			rememberable++
		}
	}
	if rememberable < 1_000 {
		t.Errorf("%d answers could have been remembered: the requests test nothing", rememberable)
	}
}

func sameRoute(a, b *restful.Route) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Method == b.Method && a.Path == b.Path && slices.Equal(a.Consumes, b.Consumes) && slices.Equal(a.Produces, b.Produces))
}

func sameError(a, b error) bool {
	var x, y restful.ServiceError
	return (a == nil) == (b == nil) && (a == nil || errors.As(a, &x) && errors.As(b, &y) && x.Code == y.Code && x.Message == y.Message)
}

// TestRouterRemembersSelections checks that a selection is remembered, and that memory is
// bounded when clients use ever new media types.
func TestRouterRemembersSelections(t *testing.T) {
	services, ours := testServices(), &router{}
	ask := func(accept string) *restful.Route {
		req := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/a", nil)
		req.Header.Set("Accept", accept)
		_, route, err := ours.SelectRoute(services, req)
		if err != nil {
			t.Fatal(err)
		}
		return route
	}
	if first := ask("*/*"); ask("*/*") != first {
		t.Error("the route was selected twice")
	}
	if long := strings.Repeat("*/*,", maxMedia); ask(long) == ask(long) {
		t.Error("long media types are remembered")
	}
	for i := range maxSelections {
		ask("*/*;q=0." + strings.Repeat("1", i))
	}
	if ask("*/*;q=0.2") == ask("*/*;q=0.2") {
		t.Error("more selections than maxSelections are remembered")
	}
}

func BenchmarkRouter(b *testing.B) {
	services := testServices()
	req := httptest.NewRequest(http.MethodPut, "/api/v1/namespaces/a", nil)
	for name, selector := range map[string]restful.RouteSelector{"remembers": &router{}, "curly": restful.CurlyRouter{}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := selector.SelectRoute(services, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
