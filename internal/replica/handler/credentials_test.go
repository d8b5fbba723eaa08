package handler_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/replica/document"
	"github.com/millrace/millrace/internal/replica/handler"
	"github.com/millrace/millrace/internal/replica/upstream"
)

// upstream is an API server that writes down the last request that it got.
type fakeUpstream struct {
	*httptest.Server
	last *http.Request
}

func startUpstream(t *testing.T) *fakeUpstream {
	u := &fakeUpstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		u.last = req
		w.Header().Set("Audit-Id", req.Header.Get("Audit-Id"))
		token, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
		_, _ = io.WriteString(w, "upstream for "+cmp.Or(token, "nobody"))
	}))
	t.Cleanup(u.Close)
	return u
}

// users authenticates the certificate of "carol" and the token of "tom".
func users(req *http.Request) (*authenticator.Response, bool, error) {
	switch {
	case req.TLS != nil && len(req.TLS.PeerCertificates) > 0 && req.TLS.PeerCertificates[0].Subject.CommonName == "carol":
		return &authenticator.Response{User: &user.DefaultInfo{Name: "carol", Groups: []string{"staff"}}}, true, nil
	case req.Header.Get("Authorization") == "Bearer tom":
		req.Header.Del("Authorization")
		return &authenticator.Response{User: &user.DefaultInfo{Name: "tom"}}, true, nil
	case strings.HasPrefix(req.Header.Get("Sec-Websocket-Protocol"), "base64url.bearer.authorization.k8s.io.dG9t"):
		req.Header.Set("Sec-Websocket-Protocol", "v4.channel.k8s.io")
		return &authenticator.Response{User: &user.DefaultInfo{Name: "tom"}}, true, nil
	case req.Header.Get("Authorization") == "Bearer broken":
		return nil, false, errors.New("no review")
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: user.Anonymous}}, true, nil
}

// ownToken is the replica's own.
const ownToken = "replica's own"

// setup is a replica's handler in front of an upstream.
type setup struct {
	mayImpersonate bool
	denies         bool
	refuses        handler.Reason
	cutOffSince    time.Time
	readsOnly      bool
	// tls is how the upstream is reached, if by TLS.
	tls     rest.TLSClientConfig
	budgets *usage.Budgets
	// accounted is handler.Config.Accounted.
	accounted func(*request.RequestInfo) bool
	// tokenRefused is the proxy's.
	tokenRefused func(string)
	// base is the path of the upstream's address.
	base string
	// frontProxy is what the upstream publishes.
	frontProxy upstream.FrontProxyHeaders
	// register registers metrics. Without it nothing is counted.
	register func(metrics.Registerable) error
}

// handler returns the handler with what stands around it: Stash, authentication and
// RequestInfo.
func (s setup) handler(t *testing.T, u *fakeUpstream) http.Handler {
	t.Helper()
	if s.register == nil {
		s.register = func(metrics.Registerable) error { return nil }
	}
	counters, err := upstream.NewMetrics(s.register)
	if err != nil {
		t.Fatal(err)
	}
	door, err := upstream.NewDoor(upstream.DoorConfig{
		Upstream: &rest.Config{Host: u.URL + s.base, BearerToken: ownToken, TLSClientConfig: s.tls}, Metrics: counters, Logger: slog.New(slog.DiscardHandler),
		MayFollow: func(schema.GroupResource) bool { return false },
	})
	if err != nil {
		t.Fatal(err)
	}
	proxy := upstream.NewProxy(upstream.ProxyConfig{
		TokenRefused: s.tokenRefused,
		Door:         door, MayImpersonate: func(context.Context) bool { return s.mayImpersonate }, FrontProxy: func() upstream.FrontProxyHeaders { return s.frontProxy },
		Serializer: scheme.Codecs, Metrics: counters, Logger: slog.New(slog.DiscardHandler),
	})
	documents := document.New(document.Config{
		Door: door, Metrics: counters, Local: func(gv schema.GroupVersion) bool { return gv.Group == "apps" }, Changes: func() int64 { return 0 },
	})
	h := handler.New(handler.Config{
		Reads: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "tier") })
		},
		Follow: func(schema.GroupVersionResource, bool) handler.Reason { return s.refuses },
		Authorizer: authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			if s.denies {
				return authorizer.DecisionNoOpinion, "", nil
			}
			return authorizer.DecisionAllow, "", nil
		}),
		Documents: documents, Proxy: proxy, Metrics: counters, Serializer: scheme.Codecs,
		ReadsOnly: s.readsOnly, UpstreamURL: "https://api.example.org", Budgets: s.budgets, Accounted: s.accounted,
		CutOffSince: func(schema.GroupVersionResource) time.Time { return s.cutOffSince },
	})
	return authenticated(t, h)
}

// authenticated puts before a handler what stands there in a replica: Stash, authentication and
// RequestInfo.
func authenticated(tb testing.TB, h http.Handler) http.Handler {
	resolver := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	authn := upstream.NewAuthenticator(authenticator.RequestFunc(users))
	return upstream.Stash(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, err := resolver.NewRequestInfo(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest) // as Kubernetes' filter does
			return
		}
		found, ok, err := authn.AuthenticateRequest(req)
		if !ok || err != nil {
			tb.Fatalf("authentication refused a request: %v", err)
		}
		req.Header.Del("Authorization") // as Kubernetes' filter does
		if len(req.Header.Values("Impersonate-User")) > 0 {
			tb.Error("Kubernetes' filters see a header of impersonation")
		}
		h.ServeHTTP(w, req.WithContext(request.WithUser(request.WithRequestInfo(req.Context(), info), found.User)))
	}))
}

// TestCutOff: answers from memory say that the replica is cut off, and since when. Those of
// the upstream do not.
func TestCutOff(t *testing.T) {
	t.Parallel()
	const header = "X-Millrace-Cut-Off-Since"
	at := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	h := setup{cutOffSince: at}.handler(t, startUpstream(t))
	read := testRequest{method: http.MethodGet, path: "/api/v1/pods", certificate: "carol"}
	if w := read.to(h); w.Header().Get(header) != "2026-11-26T08:00:00Z" || w.Body.String() != "tier" {
		t.Errorf("a read got %q and %v", w.Body, w.Header())
	}
	if w := (testRequest{method: http.MethodGet, path: "/version"}).to(h); w.Header().Get(header) != "" {
		t.Errorf("the upstream's answer has %v", w.Header())
	}
	if w := read.to(setup{}.handler(t, startUpstream(t))); w.Header().Get(header) != "" {
		t.Errorf("a replica that follows says %v", w.Header())
	}
}

type testRequest struct {
	method, path string
	// certificate is the common name of the client's certificate, "" for none.
	certificate string
	header      http.Header
}

func (r testRequest) to(h http.Handler) *httptest.ResponseRecorder {
	req := httptest.NewRequest(r.method, r.path, nil)
	for name, values := range r.header {
		req.Header[name] = values
	}
	withCertificate(req, r.certificate)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// withCertificate gives a request the certificate of a name, unless that is "".
func withCertificate(req *http.Request, name string) {
	if name != "" {
		req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: name}}}}
	}
}

const pods = "/api/v1/pods"

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// TestWhoIsAnswered sends requests and checks who answers them.
func TestWhoIsAnswered(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	for name, c := range map[string]struct {
		setup
		testRequest
		want string
	}{
		"token":               {testRequest: testRequest{"GET", pods, "", bearer("tom")}, want: "tier"},
		"certificate":         {testRequest: testRequest{"GET", pods, "carol", nil}, want: "tier"},
		"unknown token":       {testRequest: testRequest{"GET", pods, "", bearer("eve")}, want: "upstream"},
		"no review":           {testRequest: testRequest{"GET", pods, "", bearer("broken")}, want: "upstream"},
		"nobody":              {testRequest: testRequest{"GET", pods, "", nil}, want: "upstream"},
		"denied":              {setup: setup{denies: true}, testRequest: testRequest{"GET", pods, "", bearer("tom")}, want: "upstream"},
		"excluded":            {setup: setup{refuses: handler.Excluded}, testRequest: testRequest{"GET", pods, "", bearer("tom")}, want: "upstream"},
		"impersonation":       {testRequest: testRequest{"GET", pods, "", http.Header{"Authorization": {"Bearer tom"}, "Impersonate-User": {"root"}}}, want: "upstream"},
		"write":               {testRequest: testRequest{"POST", pods, "", bearer("tom")}, want: "upstream"},
		"log":                 {testRequest: testRequest{"GET", "/api/v1/namespaces/n/pods/p/log", "", bearer("tom")}, want: "upstream"},
		"discovery":           {testRequest: testRequest{"GET", "/apis", "", bearer("tom")}, want: "upstream for replica's own"},
		"discovery, denied":   {setup: setup{denies: true}, testRequest: testRequest{"GET", "/apis", "", bearer("tom")}, want: "upstream for tom"},
		"discovery, nobody":   {testRequest: testRequest{"GET", "/apis", "", nil}, want: "upstream for nobody"},
		"discovery, eve":      {testRequest: testRequest{"GET", "/apis", "", bearer("eve")}, want: "upstream for eve"},
		"discovery, as root":  {testRequest: testRequest{"GET", "/apis", "", http.Header{"Authorization": {"Bearer tom"}, "Impersonate-User": {"root"}}}, want: "upstream for tom"},
		"discovery, carol":    {testRequest: testRequest{"GET", "/apis/apps/v1", "carol", nil}, want: "upstream for replica's own"},
		"others' discovery":   {testRequest: testRequest{"GET", "/apis/metrics.k8s.io/v1", "", bearer("tom")}, want: "upstream for tom"},
		"certificate, no way": {testRequest: testRequest{"POST", pods, "carol", nil}, want: "--proxy-client-cert-file"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.testRequest.to(c.setup.handler(t, u)).Body.String(); !strings.Contains(got, c.want) {
				t.Errorf("answer %q, want %q", got, c.want)
			}
		})
	}
}

// TestRefusedIsCountedApart: a request that is refused here, because its user cannot be named,
// does not count as one that the upstream was asked to answer.
func TestRefusedIsCountedApart(t *testing.T) {
	t.Parallel()
	registry := metrics.NewKubeRegistry()
	h := setup{register: registry.Register}.handler(t, startUpstream(t))
	for range 3 {
		testRequest{"POST", pods, "carol", nil}.to(h)
	}
	testRequest{"POST", pods, "", bearer("tom")}.to(h)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if n := m.GetCounter().GetValue(); n > 0 {
				counted[family.GetName()+" "+m.GetLabel()[0].GetValue()] = n
			}
		}
	}
	want := map[string]float64{
		"millrace_replica_passed_on_total not-read": 4, "millrace_replica_refused_total certificate": 3, "millrace_replica_upstream_requests_total token": 1,
	}
	if !maps.Equal(counted, want) {
		t.Errorf("counted %v, want %v", counted, want)
	}
}

// TestWhomTheUpstreamSees checks the headers of requests that are passed on.
func TestWhomTheUpstreamSees(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	claims := http.Header{"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}, "X-Remote-Extra-A": {"b"}}
	for name, c := range map[string]struct {
		setup
		testRequest
		want http.Header
	}{
		"token":                              {testRequest: testRequest{"POST", pods, "", bearer("tom")}, want: bearer("tom")},
		"unknown token":                      {testRequest: testRequest{"POST", pods, "", bearer("eve")}, want: bearer("eve")},
		"token, and a certificate of others": {setup: setup{mayImpersonate: true}, testRequest: testRequest{"POST", pods, "eve", bearer("tom")}, want: bearer("tom")},
		"nobody":                             {testRequest: testRequest{"POST", pods, "", claims}, want: http.Header{}},
		"as another":                         {testRequest: testRequest{"POST", pods, "", http.Header{"Authorization": {"Bearer tom"}, "Impersonate-User": {"root"}}}, want: http.Header{"Authorization": {"Bearer tom"}, "Impersonate-User": {"root"}}},
		"certificate": {setup: setup{mayImpersonate: true}, testRequest: testRequest{"POST", pods, "carol", bearer("tom")},
			want: http.Header{"Authorization": {"Bearer replica's own"}, "Impersonate-User": {"carol"}, "Impersonate-Group": {"staff"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.testRequest.to(c.setup.handler(t, u)); got.Code != http.StatusOK {
				t.Fatalf("status %d: %s", got.Code, got.Body)
			}
			for _, header := range []string{"Authorization", "Impersonate-User", "Impersonate-Group", "X-Remote-User", "X-Remote-Group", "X-Remote-Extra-A", "Accept-Encoding"} {
				if got, want := u.last.Header.Get(header), c.want.Get(header); got != want {
					t.Errorf("%s: %q, want %q", header, got, want)
				}
			}
		})
	}
}
