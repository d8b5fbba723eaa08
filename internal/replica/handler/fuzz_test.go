package handler_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/replica/document"
	"github.com/millrace/millrace/internal/replica/handler"
	"github.com/millrace/millrace/internal/replica/upstream"
)

// witness is an upstream that writes down who asks it for what.
type witness struct {
	address string
	mu      struct {
		sync.Mutex
		asked []askedRequest
	}
}

// askedRequest is a request as the upstream has read it.
type askedRequest struct {
	method, target string
	header         http.Header
}

func startWitness(tb testing.TB) *witness {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	w := &witness{address: listener.Addr().String()}
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.mu.asked = append(w.mu.asked, askedRequest{req.Method, req.RequestURI, req.Header.Clone()})
		_, _ = io.WriteString(rw, "upstream")
	}), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	go func() { _ = server.Serve(listener) }()
	tb.Cleanup(func() { _ = server.Close() })
	return w
}

func (w *witness) take() []askedRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.mu.asked
	w.mu.asked = nil
	return taken
}

// fuzzedReplica is what answers requests in front of a witness. allowed are the paths that were
// authorized.
type fuzzedReplica struct {
	*witness
	front   http.Handler
	mu      sync.Mutex
	allowed []string
}

// authorizes lets everybody read documents, as RBAC rules for the beginnings of paths do, and
// nobody else anything.
func (f *fuzzedReplica) authorizes(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, prefix := range []string{"/api", "/apis", "/openapi", "/version"} {
		if !a.IsResourceRequest() && strings.HasPrefix(a.GetPath(), prefix) {
			f.allowed = append(f.allowed, a.GetPath())
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func newFuzzedReplica(tb testing.TB, base string) *fuzzedReplica {
	f := &fuzzedReplica{witness: startWitness(tb)}
	counters, err := upstream.NewMetrics(func(metrics.Registerable) error { return nil })
	if err != nil {
		tb.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	door, err := upstream.NewDoor(upstream.DoorConfig{
		Upstream: &rest.Config{Host: "http://" + f.address + base, BearerToken: ownToken}, Metrics: counters, Logger: logger,
		MayFollow: func(schema.GroupResource) bool { return true },
	})
	if err != nil {
		tb.Fatal(err)
	}
	proxy := upstream.NewProxy(upstream.ProxyConfig{
		Door: door, MayImpersonate: func(context.Context) bool { return true }, FrontProxy: func() upstream.FrontProxyHeaders { return upstream.FrontProxyHeaders{} },
		Serializer: scheme.Codecs, Metrics: counters, Logger: logger,
	})
	h := handler.New(handler.Config{
		Reads:      func(next http.Handler) http.Handler { return next },
		Follow:     func(schema.GroupVersionResource, bool) handler.Reason { return "" },
		Authorizer: authorizer.AuthorizerFunc(f.authorizes),
		Documents:  document.New(document.Config{Door: door, Metrics: counters, Local: func(schema.GroupVersion) bool { return true }, Changes: func() int64 { return 0 }, Bytes: 1 << 20}),
		Proxy:      proxy, Metrics: counters, Serializer: scheme.Codecs,
		CutOffSince: func(schema.GroupVersionResource) time.Time { return time.Time{} },
	})
	f.front = authenticated(tb, h)
	return f
}

// FuzzTargets sends requests as clients without rights might: with a token, with a certificate, or
// without either. A request with the replica's credentials must name the client, or be for a
// document to which the client has a proven right, byte for byte.
func FuzzTargets(f *testing.F) {
	for _, target := range append(slices.Clone(targets), "/apis", "/api", "/openapi/v3/apis/apps/v1?hash=A", "/openapi/v3/../../api/v1/secrets", "/openapi/v3/%2e%2e/%2e%2e/api/v1/secrets",
		"/openapi/v3//api/v1", "/apis/..", "/apis/apps%2Fv1/../..", "/version/../api/v1/secrets", "/api/v1/pods", "/api/v1/namespaces/n/pods/p/proxy/../../../secrets", "http://other/api/v1/secrets", "//other/api/v1/secrets", "/api?x\\y", "*", "A:", "A:A:", "http:..") {
		for who := range byte(4) {
			f.Add(who, "GET", target, "Accept", "application/json")
		}
	}
	for name, value := range map[string]string{
		"Connection": "Authorization, Impersonate-User, X-Remote-User", "Impersonate-User": "root", "impersonate-user": "root", "IMPERSONATE-GROUP": "system:masters", "X-Remote-User": "root", "X-Remote-Group": "system:masters",
		"Upgrade": "websocket", "Sec-Websocket-Protocol": "base64url.bearer.authorization.k8s.io.dG9t", "Authorization": "Bearer tom", "X-Original-Url": "/api/v1/secrets", "X-Http-Method-Override": "DELETE", "Host": "other", "Te": "trailers", "Expect": "100-continue",
	} {
		for who := range byte(4) {
			f.Add(who, "GET", "/apis", name, value)
			f.Add(who, "POST", "/api/v1/namespaces/n/pods", name, value)
		}
	}
	const base = "/k8s/clusters/a"
	replicas := []*fuzzedReplica{newFuzzedReplica(f, ""), newFuzzedReplica(f, base)}
	f.Fuzz(func(t *testing.T, who byte, method, target, name, value string) {
		for i, r := range replicas {
			req := readRequest(who, method, target, name, value)
			if req == nil {
				t.Skip()
			}
			r.allowed = nil
			certificate := ""
			if who%4 == 1 || who%4 == 3 {
				certificate = "carol"
			}
			r.send(req, certificate)
			for _, a := range r.take() {
				r.check(t, a, []string{"", base}[i], certificate)
			}
		}
	})
}

// readRequest reads the text of a request as Go's server does. It returns nil for what is none.
func readRequest(who byte, method, target, name, value string) *http.Request {
	var text bytes.Buffer
	for _, part := range []string{method, target, name, value} {
		if strings.ContainsAny(part, "\r\n") {
			return nil
		}
	}
	text.WriteString(method + " " + target + " HTTP/1.1\r\nHost: example.org\r\n" + name + ": " + value + "\r\n")
	if who%4 >= 2 {
		text.WriteString("Authorization: Bearer tom\r\n")
	}
	text.WriteString("\r\n")
	req, err := http.ReadRequest(bufio.NewReader(&text))
	if err != nil {
		return nil
	}
	req.RemoteAddr = "192.0.2.1:99"
	return req
}

// check looks at a request that the upstream got.
func (r *fuzzedReplica) check(t *testing.T, a askedRequest, base, certificate string) {
	t.Helper()
	if a.header.Get("X-Remote-User") != "" || a.header.Get("X-Remote-Group") != "" {
		t.Errorf("%s %s names a user by %v", a.method, a.target, a.header)
	}
	if a.header.Get("Authorization") != "Bearer "+ownToken {
		return // it is the client's own, or nobody's
	}
	target := strings.TrimPrefix(a.target, base)
	u, err := url.ParseRequestURI(target)
	if err != nil || len(target)+len(base) != len(a.target) {
		t.Fatalf("%s %s is asked with the replica's credentials: %v", a.method, a.target, err)
	}
	if name := a.header.Get("Impersonate-User"); name != "" {
		if certificate == "" || name != certificate || strings.Contains(u.Path+"/", "/../") || strings.Contains(u.Path+"/", "/./") {
			t.Errorf("%s %s is asked for %q, and the client is %q", a.method, a.target, name, certificate)
		}
		return
	}
	for header := range a.header {
		if strings.HasPrefix(header, "Impersonate-") {
			t.Errorf("%s %s has %s", a.method, a.target, header)
		}
	}
	isAllowed := false
	for _, path := range r.allowed {
		isAllowed = isAllowed || path == u.Path && path == u.EscapedPath()
	}
	if a.method != http.MethodGet || !upstream.IsDocument(u.Path) || !isAllowed {
		t.Errorf("%s %s is asked with the replica's credentials, and what the client may read is %q", a.method, a.target, r.allowed)
	}
}

// send sends the replica a request.
func (r *fuzzedReplica) send(req *http.Request, certificate string) {
	defer func() {
		if failed := recover(); failed != nil && failed != http.ErrAbortHandler {
			panic(failed)
		}
	}()
	withCertificate(req, certificate)
	r.front.ServeHTTP(httptest.NewRecorder(), req)
}
