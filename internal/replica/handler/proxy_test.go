package handler_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/filters"
)

// TestRedirectsStayHere: a redirect to the upstream's address leads to the same path of the host that the
// client asked. Others stay as they are.
func TestRedirectsStayHere(t *testing.T) {
	t.Parallel()
	u := &fakeUpstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Location", req.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(u.Close)
	h := setup{}.handler(t, u)
	host := u.Listener.Addr().String()
	for to, want := range map[string]string{
		"http://" + host + "/a%2Fb?c=d": "http://example.com/a%2Fb?c=d", // httptest's requests are for example.com
		"https://other.example/a":       "https://other.example/a",
		"/a":                            "/a",
		"":                              "",
	} {
		read := testRequest{method: http.MethodGet, path: "/api/v1/nodes/n/proxy/?to=" + url.QueryEscape(to), header: bearer("tom")}
		if got := read.to(h).Header().Get("Location"); got != want {
			t.Errorf("a redirect to %q leads to %q, want %q", to, got, want)
		}
	}
}

// TestRefusedTokens makes the upstream refuse requests. It is told of tokens of users, and not of
// strangers, nor of what programs refuse that the upstream proxies to.
func TestRefusedTokens(t *testing.T) {
	t.Parallel()
	u := &fakeUpstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		status, err := strconv.Atoi(req.URL.Query().Get("status"))
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(u.Close)
	var told []string
	h := setup{tokenRefused: func(header string) { told = append(told, header) }}.handler(t, u)
	for _, r := range []testRequest{
		{method: http.MethodPost, path: "/api/v1/namespaces/n/pods?status=200", header: bearer("tom")},
		{method: http.MethodPost, path: "/api/v1/namespaces/n/pods?status=403", header: bearer("tom")},
		{method: http.MethodPost, path: "/api/v1/namespaces/n/pods?status=401", header: bearer("nobody")},
		{method: http.MethodPost, path: "/api/v1/namespaces/n/pods?status=401"},
		{method: http.MethodGet, path: "/api/v1/namespaces/n/pods/p/proxy/x?status=401", header: bearer("tom")},
		{method: http.MethodGet, path: "/api/v1/proxy/namespaces/n/pods/p/x?status=401", header: bearer("tom")},
	} {
		r.to(h)
	}
	if len(told) > 0 {
		t.Errorf("refused: %q", told)
	}
	if (testRequest{method: http.MethodPost, path: "/api/v1/namespaces/n/pods?status=401", header: bearer("tom")}).to(h); !slices.Equal(told, []string{"Bearer tom"}) {
		t.Errorf("refused: %q", told)
	}
}

// TestInterimAnswers: the answer to a request is the upstream's final one, in both protocols, inside
// the filter that bounds the time of requests. A program that the upstream proxies to may send interim
// answers, which are passed on.
func TestInterimAnswers(t *testing.T) {
	t.Parallel()
	u := &fakeUpstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Link", "</style.css>")
		for _, status := range []int{http.StatusContinue, http.StatusProcessing, http.StatusEarlyHints} {
			w.WriteHeader(status)
		}
		w.Header().Del("Link")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, "{}")
		w.Header().Set("X-Sum", "2")
	}))
	t.Cleanup(u.Close)
	resolver := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	bounded := filters.WithTimeoutForNonLongRunningRequests(setup{}.handler(t, u), func(_ *http.Request, info *request.RequestInfo) bool {
		return info.Subresource == "proxy"
	})
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, err := resolver.NewRequestInfo(req)
		if err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(request.WithRequestInfo(req.Context(), info), time.Minute)
		defer cancel()
		bounded.ServeHTTP(w, req.WithContext(ctx))
	}))
	front.EnableHTTP2 = true
	front.StartTLS()
	t.Cleanup(front.Close)
	older := front.Client().Transport.(*http.Transport).Clone()
	older.ForceAttemptHTTP2, older.TLSClientConfig.NextProtos = false, []string{"http/1.1"}
	older.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	for protocol, client := range map[string]*http.Client{"HTTP/2.0": front.Client(), "HTTP/1.1": {Transport: older}} {
		for path, want := range map[string][]int{
			"/api/v1/namespaces/n/configmaps":   nil,
			"/api/v1/namespaces/n/pods/p/proxy": {http.StatusProcessing, http.StatusEarlyHints},
		} {
			var interim []int
			trace := &httptrace.ClientTrace{Got1xxResponse: func(status int, _ textproto.MIMEHeader) error {
				if status != http.StatusContinue { // the front sends it when the body is read
					interim = append(interim, status)
				}
				return nil
			}}
			req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, front.URL+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Authorization": {"Bearer tom"}, "Expect": {"100-continue"}, "Content-Type": {"application/json"}}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.Proto != protocol || resp.StatusCode != http.StatusUnprocessableEntity || string(body) != "{}" || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("Link") != "" {
				t.Errorf("%s over %s: %d %v %q, %v", path, resp.Proto, resp.StatusCode, resp.Header, body, err)
			}
			if !slices.Equal(interim, want) {
				t.Errorf("%s over %s: interim answers %v, want %v", path, resp.Proto, interim, want)
			}
			if want != nil && resp.Trailer.Get("X-Sum") != "2" { // that filter drops trailers, of which an API server has none
				t.Errorf("%s over %s: trailer %v", path, resp.Proto, resp.Trailer)
			}
		}
	}
}

// clientTLS has clients trust an upstream.
func clientTLS(u *fakeUpstream) rest.TLSClientConfig {
	return rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: u.Certificate().Raw})}
}

// TestStrangersEndNoOthersConnection: an API server ends the HTTP/2 connection on which a
// request without good credentials comes. The users of a replica share one.
func TestStrangersEndNoOthersConnection(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	connections := map[string]bool{} // those of tom
	u := &fakeUpstream{}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer tom" {
			if req.ProtoMajor == 2 {
				w.Header().Set("Connection", "close") // as genericapifilters.WithAuthentication does
			}
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mu.Lock()
		connections[req.Proto+" "+req.RemoteAddr] = true
		mu.Unlock()
		_, _ = io.Copy(w, req.Body)
	}))
	u.EnableHTTP2 = true
	u.StartTLS()
	t.Cleanup(u.Close)
	h := setup{tls: clientTLS(u)}.handler(t, u)
	write := func() {
		req := httptest.NewRequest(http.MethodPost, pods, strings.NewReader("{}"))
		req.Header = bearer("tom")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, req); w.Code != http.StatusOK || w.Body.String() != "{}" {
			t.Errorf("a write got %d %q", w.Code, w.Body)
		}
	}
	write() // so that later ones find its connection
	var all sync.WaitGroup
	for client := range 8 {
		all.Go(func() {
			for range 50 {
				if client%2 == 0 {
					write()
				} else if w := (testRequest{http.MethodGet, "/version", "", []http.Header{nil, bearer("eve")}[client/2%2]}).to(h); w.Code != http.StatusUnauthorized {
					t.Errorf("a stranger got %d %q", w.Code, w.Body)
				}
			}
		})
	}
	all.Wait()
	if len(connections) != 1 {
		t.Errorf("writes came over %d connections, want one: %v", len(connections), connections)
	}
}

// TestStrangersConnectionEnds: Kubernetes' filter ends the connection of a client without
// credentials, and the headers of the upstream's answer do not keep it.
func TestStrangersConnectionEnds(t *testing.T) {
	t.Parallel()
	h := setup{}.handler(t, startUpstream(t))
	w := httptest.NewRecorder()
	w.Header().Set("Connection", "close")
	w.Header().Set("Cache-Control", "set by a filter")
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/version", nil))
	if got := w.Header(); got.Get("Connection") != "close" || got.Get("Cache-Control") != "" {
		t.Errorf("headers %v", got)
	}
}
