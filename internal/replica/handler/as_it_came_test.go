package handler_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/audit"

	"github.com/millrace/millrace/internal/replica/handler"
)

// targets are targets of requests that an API server tells apart, though some are read as the same
// one.
var targets = []string{
	"/version", "/version/", "//version", "/api/v1/namespaces/n/pods/p/proxy/a%2Fb", "/api/v1/namespaces/n/pods/p/proxy/%61?a=%zz&b;c",
	"/api/v1/namespaces/n/pods/p/proxy/{a}|\"<>^`", "/a/../b", "/a/%2e%2e/b", "/a//b", "/a/./b/", "/a?", "/a?x=%20+y", "/%", "/a%2", "/a;b=c,d", "//{x}",
}

// TestTargetsAreKept: the upstream is asked for a path and a query as they came, in both protocols.
func TestTargetsAreKept(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	u := &fakeUpstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { asked <- req.RequestURI }))
	t.Cleanup(u.Close)
	for _, base := range []string{"", "/k8s/clusters/a%2Fb"} {
		front := httptest.NewServer(setup{base: base}.handler(t, u))
		t.Cleanup(front.Close)
		for _, target := range targets {
			conn, err := net.Dial("tcp", front.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer tom\r\nRange: bytes=0-\r\n\r\n", target)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			conn.Close()
			if resp.StatusCode == http.StatusBadRequest {
				continue // no server of Go's takes it
			}
			want := base + target
			if got := strings.TrimPrefix(<-asked, u.URL); got != want {
				t.Errorf("%s is asked as %s", want, got)
			}
		}
	}
}

// TestTargetsEndNoRequestLine: what only HTTP/2 can say in a path ends no line of HTTP/1.1.
func TestTargetsEndNoRequestLine(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	h := setup{}.handler(t, u)
	req := httptest.NewRequest(http.MethodGet, "/version", nil)
	req.URL.Path, req.URL.RawPath, req.URL.RawQuery = "/a HTTP/1.1", "/a HTTP/1.1", "b=c HTTP/1.1"
	req.RequestURI = "/a HTTP/1.1?b=c HTTP/1.1"
	h.ServeHTTP(httptest.NewRecorder(), req)
	if u.last.RequestURI != "/a%20HTTP/1.1?b=c%20HTTP/1.1" {
		t.Errorf("asked for %s", u.last.RequestURI)
	}
}

// TestUncleanPathsNeedNoVouching: servers on the way may read such a path as another one. So none goes
// out with credentials of the replica's, for which they may do more than for the client.
func TestUncleanPathsNeedNoVouching(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/../../v3/tokens", "/a/..", "/a/./b", "/a/%2e%2e/b", "/a%2f..%2fb", "/.", "/api/v1/namespaces/n/pods/p/proxy/../../secrets", "/openapi/v3/../../api/v1/secrets",
	} {
		u := startUpstream(t)
		h := setup{mayImpersonate: true}.handler(t, u)
		got := testRequest{"GET", path, "carol", nil}.to(h)
		if got.Code != http.StatusBadRequest || u.last != nil || !strings.Contains(got.Body.String(), "bearer token") {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
		if (testRequest{"GET", path, "", bearer("tom")}).to(h); u.last == nil || u.last.Header.Get("Authorization") != "Bearer tom" {
			t.Errorf("%s: a user with a token is not passed on", path)
		}
	}
	u := startUpstream(t)
	for _, path := range []string{"/", "/a/", "/a//b", "//a", "/a/...", "/a/.b", "/a%20b/..c/"} {
		if got := (testRequest{"POST", path, "carol", nil}).to(setup{mayImpersonate: true}.handler(t, u)); got.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
}

// TestProxiesOnTheWay: headers of proxies in front are handed on, unless they are for the connection
// alone. A program that the upstream proxies to sees no name in a request that its client has not
// given.
func TestProxiesOnTheWay(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	h := setup{}.handler(t, u)
	named := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := audit.WithAuditContext(req.Context())
		if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{}, nil); err != nil {
			t.Error(err)
		}
		audit.WithAuditID(ctx, "given")
		h.ServeHTTP(w, req.WithContext(ctx))
	})
	sent := http.Header{"Forwarded": {"for=a"}, "X-Forwarded-Host": {"b"}, "X-Forwarded-Proto": {"c", "d"}, "X-Forwarded-For": {"192.0.2.7", "192.0.2.8"}, "Connection": {"x-forwarded-host, X-Own"}, "X-Own": {"e"}}
	maps.Copy(sent, bearer("tom"))
	for path, id := range map[string]string{
		pods + "/p": "given", "/api/v1/namespaces/n/pods/p/proxy/a": "", "/api/v1/namespaces/n/pods/p/exec": "", "/api/v1/proxy/namespaces/n/pods/p": "", "/api/v1/nodes/n/proxy": "",
	} {
		testRequest{"POST", path, "", sent}.to(named)
		got := u.last.Header
		if got.Get("Forwarded") != "for=a" || got.Get("X-Forwarded-Host") != "" || !slices.Equal(got["X-Forwarded-Proto"], []string{"c", "d"}) ||
			got.Get("X-Forwarded-For") != "192.0.2.7, 192.0.2.8, 192.0.2.1" || got.Get("X-Own") != "" || got.Get("Audit-Id") != id {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// TestErrorsNameNoAddress: what a client is told when the upstream does not answer has no address.
func TestErrorsNameNoAddress(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	h := setup{}.handler(t, u)
	address := u.Listener.Addr().String()
	u.Close()
	for _, header := range []http.Header{nil, bearer("tom")} {
		got := testRequest{"POST", pods, "", header}.to(h)
		if got.Code != http.StatusServiceUnavailable || strings.Contains(got.Body.String(), address) || strings.Contains(got.Body.String(), "dial") || !strings.Contains(got.Body.String(), "retry") {
			t.Errorf("%d %s", got.Code, got.Body)
		}
	}
}

// TestTokenOfWebSocketIsNoCertificate: a client that shows a certificate which nobody knows, and a
// good token where browsers put it, is one with a token.
func TestTokenOfWebSocketIsNoCertificate(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	protocol := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte("tom")) + ", v4.channel.k8s.io"
	header := http.Header{"Sec-Websocket-Protocol": {protocol}}
	got := testRequest{"GET", "/api/v1/namespaces/n/pods/p/log", "eve", header}.to(setup{mayImpersonate: true}.handler(t, u))
	if got.Code != http.StatusOK || u.last.Header.Get("Impersonate-User") != "" || u.last.Header.Get("Sec-Websocket-Protocol") != protocol {
		t.Errorf("%d %s; the upstream sees %v", got.Code, got.Body, u.last.Header)
	}
}

// TestHeadsOfWebSockets: headers of an upgraded connection are written as the standard does.
func TestHeadsOfWebSockets(t *testing.T) {
	t.Parallel()
	u := &fakeUpstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\nhello")
	}))
	t.Cleanup(u.Close)
	front := httptest.NewServer(setup{}.handler(t, u))
	t.Cleanup(front.Close)
	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /api/v1/namespaces/n/pods/p/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer tom\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	text, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 101 ") || !strings.Contains(string(text), "\r\nSec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n") || !strings.HasSuffix(string(text), "\r\n\r\nhello") {
		t.Errorf("%q, %v", text, err)
	}
}

// TestManyStreamsOfOneUser: one user's open requests, more than a connection can have, keep no other
// user's waiting.
func TestManyStreamsOfOneUser(t *testing.T) {
	t.Parallel()
	const watches = 300
	u := &fakeUpstream{}
	held := make(chan struct{})
	var open sync.WaitGroup
	open.Add(watches)
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.ProtoMajor != 2 {
			t.Errorf("a request by %s", req.Proto)
		}
		if req.URL.RawQuery == "" {
			_, _ = io.WriteString(w, "ann's")
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		open.Done()
		<-held
	}))
	u.EnableHTTP2 = true
	u.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 10}
	u.StartTLS()
	t.Cleanup(u.Close)
	h := setup{tls: clientTLS(u), refuses: handler.Excluded}.handler(t, u)
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	for range watches {
		watching.Go(func() {
			defer func() { _ = recover() }() // http.ErrAbortHandler, when the client goes
			req := httptest.NewRequest(http.MethodGet, "/apis/x/y/z?watch=1", nil).WithContext(ctx)
			req.Header = bearer("tom")
			h.ServeHTTP(httptest.NewRecorder(), req)
		})
	}
	open.Wait()
	if got := (testRequest{"POST", pods, "", bearer("tom")}).to(h); got.Body.String() != "ann's" {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	stop()
	close(held)
	watching.Wait()
}
