package upstream_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/replica/upstream"
)

func newMetrics(t *testing.T) *upstream.Metrics {
	t.Helper()
	counters, err := upstream.NewMetrics(metrics.NewKubeRegistry().Register)
	if err != nil {
		t.Fatal(err)
	}
	return counters
}

// newDoor makes a door. Unless cfg says otherwise, all but secrets may be followed.
func newDoor(t *testing.T, cfg upstream.DoorConfig) *upstream.Door {
	t.Helper()
	if cfg.Metrics == nil {
		cfg.Metrics = newMetrics(t)
	}
	if cfg.MayFollow == nil {
		cfg.MayFollow = func(gr schema.GroupResource) bool { return gr != schema.GroupResource{Resource: "secrets"} }
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	door, err := upstream.NewDoor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return door
}

const published = "/api/v1/namespaces/kube-system/configmaps"

// ownRequests are what a replica may ask for itself, and foreignRequests are not.
var (
	ownRequests = []string{
		"GET /version", "GET /api", "GET /apis", "GET /api/v1", "GET /apis/apps", "GET /apis/apps/v1", "GET /openapi/v2", "GET /openapi/v3", "GET /openapi/v3/apis/apps/v1?hash=A",
		"POST /apis/authentication.k8s.io/v1/tokenreviews", "POST /apis/authentication.k8s.io/v1/selfsubjectreviews",
		"POST /apis/authorization.k8s.io/v1/subjectaccessreviews", "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		"GET " + published + "/extension-apiserver-authentication", "GET " + published + "?fieldSelector=metadata.name%3Dextension-apiserver-authentication&watch=true",
		"GET /api/v1/pods", "GET /api/v1/pods?limit=1", "GET /apis/apps/v1/deployments?watch=true", "GET /apis/x-y.example.com/v1alpha1/a-b",
		"GET /api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Dp&resourceVersion=5&resourceVersionMatch=Exact", "GET /apis/a.b/v1/namespaces/n/things?fieldSelector=metadata.name%3Dx%5C%3Dy&watch=true",
		"GET " + published + "?fieldSelector=metadata.name%3Dother",
		"GET /api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Dp&resourceVersion=7", "GET /apis/apps/v1/namespaces/n/deployments?fieldSelector=metadata.name%3Dp",
	}
	foreignRequests = []string{
		"GET /", "GET /metrics", "GET /healthz", "GET /logs/", "GET /debug/pprof/heap", "GET /.well-known/openid-configuration", "GET /openid/v1/jwks",
		"GET /api/v1/secrets", "GET /api/v1/namespaces/n/pods", "GET /api/v1/namespaces/n/secrets?fieldSelector=metadata.name%3Ds", "GET /api/v1/namespaces/n/pods?fieldSelector=spec.nodeName%3Dn", "GET /api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Da%2Cmetadata.name!%3Db",
		"GET /api/v1/namespaces/n/pods?fieldSelector=metadata.name!%3Dp", "GET /api/v1/namespaces/n/pods?fieldSelector=metadata.name%3D", "GET /api/v1/namespaces/n/pods/log?fieldSelector=metadata.name%3Dp", "GET /api/v1/namespaces/n/secrets/s", "GET /api/v1/pods/", "GET /apis/apps/v1/deployments/x", "GET /apis/a/b/c/d/e",
		"GET /api/v1/nodes/n/proxy/run", "GET /api/v1/namespaces/n/pods/p/log", "GET /api/v1/namespaces/kube-system/pods",
		"GET " + published, "GET " + published + "/other", "GET " + published + "?fieldSelector=metadata.name%3Dextension-apiserver-authentication&fieldSelector=",
		"GET /api/v1/namespaces/n/secrets?fieldSelector=metadata.name%3Ds", "GET /api/v1/namespaces/n/pods?fieldSelector=metadata.name%21%3Dp", "GET /api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Dp%2Cspec.nodeName%3Dn",
		"GET /api/v1/namespaces/n/pods?fieldSelector=spec.nodeName%3Dn", "GET /api/v1/namespaces/../pods?fieldSelector=metadata.name%3Dp", "GET /api/v1/namespaces/n/pods/log?fieldSelector=metadata.name%3Dp",
		"POST /api/v1/namespaces/n/pods", "POST /api/v1/pods", "POST /apis/authorization.k8s.io/v1/namespaces/n/localsubjectaccessreviews", "POST /apis/authorization.k8s.io/v1/subjectaccessreviews/",
		"POST /version", "PUT /api/v1/pods", "PATCH /apis/apps/v1", "DELETE /api/v1/pods", "HEAD /api/v1/pods", "OPTIONS /version", "CONNECT /version", "get /version",
		"GET /openapi/v3/../../api/v1/secrets", "GET /openapi/v3/%2e%2e/%2e%2e/api/v1/secrets", "GET //version", "GET /version/", "GET /api//v1", "GET /api/v1/./secrets", "GET /api/v1/%73ecrets",
		"GET /apis/..", "GET /apis/apps%2Fv1", "GET /openapi/v3/", "GET /openapi/v2/x", "GET /openapi", "GET /api/v1/pods;x", "GET /api/v1/pods?%zz", "GET /version/x", "GET /api/v1/pods%00",
	}
)

// TestOwnRequestsAreClosed sends requests with the replica's own credentials, as a fault of any part
// might. None arrives that is not on the list.
func TestOwnRequestsAreClosed(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/k8s/clusters/a"} {
		var arrived []string
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			arrived = append(arrived, req.Method+" "+strings.TrimPrefix(req.RequestURI, base))
		}))
		t.Cleanup(server.Close)
		registry := metrics.NewKubeRegistry()
		counters, err := upstream.NewMetrics(registry.Register)
		if err != nil {
			t.Fatal(err)
		}
		client, err := rest.HTTPClientFor(newDoor(t, upstream.DoorConfig{Upstream: &rest.Config{Host: server.URL + base, BearerToken: "own"}, Metrics: counters}).Own())
		if err != nil {
			t.Fatal(err)
		}
		send := func(text, address string, header http.Header) error {
			method, target, _ := strings.Cut(text, " ")
			path, query, _ := strings.Cut(target, "?")
			made, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			made.RawPath = base + path
			if made.Path, err = url.PathUnescape(made.RawPath); err != nil {
				t.Fatal(err)
			}
			made.RawQuery = query
			resp, err := client.Do(&http.Request{Method: method, URL: made, Header: header})
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		for _, text := range ownRequests {
			if err := send(text, server.URL, http.Header{}); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		if !slices.Equal(arrived, ownRequests) {
			t.Errorf("%q arrived, want %q", arrived, ownRequests)
		}
		arrived = nil
		refused := func(text, address string, header http.Header) {
			if err := send(text, address, header); !errors.Is(err, upstream.ErrRefused) {
				t.Errorf("%s %v at %s: %v", text, header, address, err)
			}
		}
		for _, text := range foreignRequests {
			refused(text, server.URL, http.Header{})
		}
		for _, header := range []string{"Impersonate-User", "Impersonate-Extra-A", "X-Remote-User", "X-Remote-Group"} {
			refused("GET /version", server.URL, http.Header{header: {"root"}})
		}
		refused("GET /version", "http://127.0.0.1:1", http.Header{})
		names := http.Header{"Accept": {"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}}
		refused("GET /api/v1/secrets", server.URL, names)
		refused("GET /api/v1/secrets?limit=1", server.URL, http.Header{})
		refused("GET /api/v1/secrets?limit=10", server.URL, names)
		refused("GET /api/v1/secrets?limit=1&watch=true", server.URL, names)
		if len(arrived) > 0 {
			t.Errorf("%q arrived", arrived)
		}
		for _, text := range []string{"GET /api/v1/secrets?limit=1", "GET /api/v1/secrets?limit=1&timeout=32s"} {
			if err := send(text, server.URL, names); err != nil {
				t.Errorf("the name of one object: %v", err)
			}
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() != "millrace_replica_guarded_requests_total" {
				continue
			}
			for _, m := range family.GetMetric() {
				want := 0
				if m.GetLabel()[0].GetValue() == "own" {
					want = len(foreignRequests) + 9
				}
				if got := m.GetCounter().GetValue(); got != float64(want) {
					t.Errorf("%v: %v, want %d", m.GetLabel(), got, want)
				}
			}
		}
	}
}

// TestTargets: what a client asks for is asked byte for byte, or is no document.
func TestTargets(t *testing.T) {
	t.Parallel()
	var arrived string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { arrived = req.RequestURI }))
	t.Cleanup(server.Close)
	door := newDoor(t, upstream.DoorConfig{Upstream: &rest.Config{Host: server.URL + "/base"}})
	for asked, want := range map[string]string{
		"/version": "/version", "/apis?timeout=32s": "/apis", "/openapi/v3/apis/apps/v1?hash=A&timeout=5s": "/openapi/v3/apis/apps/v1?hash=A", "/apis/a..b/v1": "/apis/a..b/v1",
		"/apis?watch=1": "", "/apis/..": "", "/openapi/v3/../../api/v1/secrets": "", "/openapi/v3//api/v1": "", "/openapi/v3/%61pi": "", "/apis/": "", "/api/v1/pods": "", "/metrics": "", "/openapi/v3/a%2Fb": "",
	} {
		u, err := url.ParseRequestURI(asked)
		if err != nil {
			t.Fatal(err)
		}
		target, ok := upstream.TargetOf(u)
		if ok != (want != "") {
			t.Errorf("%s is a document: %v", asked, ok)
		}
		if !ok {
			continue
		}
		resp, err := door.Document(t.Context(), target, http.Header{})
		if err != nil {
			t.Errorf("%s: %v", asked, err)
			continue
		}
		resp.Body.Close()
		if arrived != "/base"+want {
			t.Errorf("%s is asked as %s", asked, arrived)
		}
	}
	if resp, err := door.Document(t.Context(), upstream.Target{}, http.Header{}); !errors.Is(err, upstream.ErrRefused) {
		t.Errorf("no document: %v", err)
		if err == nil {
			resp.Body.Close()
		}
	}
}

// panickingTransport panics for one path.
type panickingTransport struct {
	http.RoundTripper
	path string
}

func (p panickingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path == p.path {
		panic("a transport")
	}
	return p.RoundTripper.RoundTrip(req)
}

// TestImpersonationIsAskedWithoutPanic: a panic of what asks the upstream ends nothing, and means no.
func TestImpersonationIsAskedWithoutPanic(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&fakeAPI{allowed: 9})
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
		return panickingTransport{next, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}
	}}
	counter := panics.New(slog.New(slog.DiscardHandler))
	u, err := upstream.New(upstream.Config{Door: newDoor(t, upstream.DoorConfig{Upstream: config}), Own: version.Info{}, Logger: slog.New(slog.DiscardHandler), Panics: counter})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if u.MayImpersonate(t.Context()) {
			t.Error("a replica may impersonate because of a panic")
		}
	}
	if counts, _ := counter.Counts(); counts[panics.Request] != 2 {
		t.Errorf("panics %v", counts)
	}
}

// TestStrangersWaitForEachOther: one address whose requests the upstream does not answer keeps no other
// address waiting, and is told to come back. A request that the upstream has answered well no longer
// counts.
func TestStrangersWaitForEachOther(t *testing.T) {
	t.Parallel()
	const each, address = 32, "192.0.2.1:7"
	arrived, held := make(chan struct{}, 200), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/held":
			arrived <- struct{}{}
			<-held
		case "/watch":
			_ = http.NewResponseController(w).Flush()
			arrived <- struct{}{}
			<-held
		}
	}))
	t.Cleanup(server.Close)
	counters := newMetrics(t)
	proxy := upstream.NewProxy(upstream.ProxyConfig{
		Door:           newDoor(t, upstream.DoorConfig{Upstream: &rest.Config{Host: server.URL}, Metrics: counters, StrangersWait: 1}),
		MayImpersonate: func(context.Context) bool { return false }, FrontProxy: func() upstream.FrontProxyHeaders { return upstream.FrontProxyHeaders{} },
		Serializer: scheme.Codecs, Metrics: counters, Logger: slog.New(slog.DiscardHandler),
	})
	h := asStranger(proxy)
	ask := func(path, from string) *httptest.ResponseRecorder {
		req, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
		req.RemoteAddr = from
		h.ServeHTTP(w, req)
		return w
	}
	var open sync.WaitGroup
	for _, path := range []string{"/watch", "/held"} {
		for range each {
			open.Go(func() { ask(path, address) })
			<-arrived
		}
	}
	if got := ask("/version", address); got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") != "1" {
		t.Errorf("the address of many: %d %v %s", got.Code, got.Header(), got.Body)
	}
	if got := ask("/version", "192.0.2.2:7"); got.Code != http.StatusOK {
		t.Errorf("another address: %d %s", got.Code, got.Body)
	}
	close(held)
	open.Wait()
	if got := ask("/version", address); got.Code != http.StatusOK {
		t.Errorf("the address of many, later: %d %s", got.Code, got.Body)
	}
}

// asStranger gives each request the user that NewAuthenticator finds if nobody knows it.
func asStranger(next http.Handler) http.Handler {
	nobody := upstream.NewAuthenticator(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, nil }))
	return upstream.Stash(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		found, _, _ := nobody.AuthenticateRequest(req)
		next.ServeHTTP(w, req.WithContext(request.WithUser(req.Context(), found.User)))
	}))
}
