package bench

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func newTestLoader(t *testing.T, api http.Handler, http2 bool) *loader {
	t.Helper()
	_, cfg := startFake(t, api, http2)
	target, err := newTarget(targetConfig{rest: cfg, http1: !http2})
	if err != nil {
		t.Fatal(err)
	}
	return &loader{
		target: target, meter: newMeter(os.Getpid()), captures: t.TempDir(), log: newProgress(io.Discard),
		plan: plan{Requests: 7, Warmup: 2, Timeout: time.Minute},
	}
}

func TestLoadCounts(t *testing.T) {
	for _, http2 := range []bool{true, false} {
		api := &fakeAPI{pods: 600, nodes: 4}
		l := newTestLoader(t, api, http2)
		sizes := map[string]int64{}
		for _, s := range specs() {
			w, err := s.workload(subject{"ns", "pod-0", "node-1", "app=web"}, "0")
			if err != nil {
				t.Fatal(err)
			}
			w.concurrency = 3
			before := api.requests.Load()
			res, _, err := l.run(t.Context(), w)
			if err != nil {
				t.Fatalf("%s: %v", w.name, err)
			}
			sizes[w.name] = res.Bytes
			if sent := api.requests.Load() - before; sent != 3+2+7 {
				t.Errorf("%s: %d requests sent, want 3 to connect, 2 to warm up and 7", w.name, sent)
			}
			if res.Requests != 7 || res.Server == nil || res.Millis.Max < res.Millis.P50 {
				t.Errorf("%s: %+v", w.name, res)
			}
			want := map[string]int{"nodes-json": 4, "pod-get": 1, "pods-of-node": 5, "pods-by-label": 5, "pods-limit": 500, "pods-table": 500}[w.name]
			if want == 0 {
				want = 600
			}
			if res.Items != want {
				t.Errorf("%s: %d items, want %d", w.name, res.Items, want)
			}
			if w.encoding != res.ContentEncoding {
				t.Errorf("%s: content encoding %q", w.name, res.ContentEncoding)
			}
		}
		if want := int64(len(protobufList(600))); sizes["pods-protobuf"] != want {
			t.Errorf("%d bytes counted, want %d", sizes["pods-protobuf"], want)
		}
		if sizes["pods-json-gzip"] >= sizes["pods-json"]/2 {
			t.Errorf("gzip was unpacked: %d bytes of %d", sizes["pods-json-gzip"], sizes["pods-json"])
		}
		if sizes["pods-protobuf-zstd"] >= sizes["pods-protobuf"]/2 {
			t.Errorf("zstd was unpacked: %d bytes of %d", sizes["pods-protobuf-zstd"], sizes["pods-protobuf"])
		}
		if entries, _ := os.ReadDir(l.captures); len(entries) != 0 {
			t.Errorf("%d captures left", len(entries))
		}
	}
}

func TestLoadUsesOneConnectionPerClient(t *testing.T) {
	api := &fakeAPI{nodes: 4}
	l := newTestLoader(t, api, true)
	l.plan.Concurrency = 6
	if _, _, err := l.run(t.Context(), workload{name: "n", uri: "/api/v1/nodes", accept: acceptJSON, concurrency: 1}); err != nil {
		t.Fatal(err)
	}
	api.mu.Lock()
	defer api.mu.Unlock()
	if n := len(api.mu.clients); n != 6 {
		t.Errorf("%d connections, want 6", n)
	}
}

func TestLoadByDurationSendsAtLeastOneEach(t *testing.T) {
	l := newTestLoader(t, &fakeAPI{nodes: 4}, true)
	l.plan.Requests, l.plan.Duration = 0, 1
	res, _, err := l.run(t.Context(), workload{name: "n", uri: "/api/v1/nodes", accept: acceptJSON, concurrency: 4})
	if err != nil || res.Requests < 4 {
		t.Errorf("%d requests, %v", res.Requests, err)
	}
}

func TestLoadFails(t *testing.T) {
	var calls atomic.Int64
	shrinking := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			return
		}
		if calls.Add(1) > 3 {
			io.WriteString(w, `{"items":[]}`)
			return
		}
		io.WriteString(w, `{"items":[{"name":"a long enough name to be missed"}]}`)
	})
	for _, c := range []struct {
		name    string
		api     http.Handler
		w       workload
		message string
	}{
		{"status", &fakeAPI{}, workload{uri: "/nowhere"}, "404"},
		{"no list", &fakeAPI{}, workload{uri: "/version"}, `no "items"`},
		{"too few items", &fakeAPI{nodes: 2}, workload{uri: "/api/v1/nodes", minItems: 3}, "2 items, expected at least 3"},
		{"shrunk", shrinking, workload{uri: "/x"}, "a response of 12 bytes"},
	} {
		c.w.name, c.w.accept, c.w.concurrency = "w", acceptJSON, 1
		_, _, err := newTestLoader(t, c.api, true).run(t.Context(), c.w)
		if err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.message)
		}
	}
}

func TestLoadRefusesHTTP1Server(t *testing.T) {
	l := newTestLoader(t, &fakeAPI{}, false)
	l.target.cfg.http1 = false
	if _, err := l.connect(t.Context(), 1); err == nil {
		t.Error("no error from a server without HTTP/2")
	}
	l.target.cfg.http1 = true
	if conns, err := l.connect(t.Context(), 1); err != nil {
		t.Errorf("with --http1: %v", err)
	} else {
		closeAll(conns)
	}
}

func TestMeasureMemoryHasAllListsOpen(t *testing.T) {
	const lists = 5
	api := &fakeAPI{pods: 3000} // more than a reader's window
	l := newTestLoader(t, api, true)
	l.plan.Duration = 50 * time.Millisecond
	m, err := l.measureMemory(t.Context(), workload{name: listMemory, uri: "/api/v1/pods?resourceVersion=0", accept: acceptJSON}, lists)
	if err != nil {
		t.Fatal(err)
	}
	if m.Lists != lists || m.BodyBytes < slowWindow || m.PeakBytes < m.BeforeBytes {
		t.Errorf("got %+v", m)
	}
	api.mu.Lock()
	defer api.mu.Unlock()
	n := len(api.mu.uris) - len(slices.DeleteFunc(slices.Clone(api.mu.uris), func(uri string) bool { return strings.HasPrefix(uri, "/api/v1/pods") }))
	if n != 2+lists {
		t.Errorf("%d LISTs, want 2 to warm up and %d", n, lists)
	}
}

func TestMeasureMemoryReportsFailure(t *testing.T) {
	l := newTestLoader(t, &fakeAPI{}, true)
	l.plan.Warmup = 1
	var calls atomic.Int64
	failing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 2 {
			http.Error(w, "too many", http.StatusTooManyRequests)
			return
		}
		io.WriteString(w, `{"items":[]}`)
	})
	_, cfg := startFake(t, failing, true)
	l.target, _ = newTarget(targetConfig{rest: cfg})
	if _, err := l.measureMemory(t.Context(), workload{name: listMemory, uri: "/x", accept: acceptJSON}, 1); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("got %v", err)
	}
}

func TestClientCertificate(t *testing.T) {
	certificate, authority, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) != 1 || !bytes.Equal(r.TLS.PeerCertificates[0].Raw, certificate.Certificate[0]) {
			http.Error(w, "another certificate", http.StatusUnauthorized)
		}
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	target, err := newTarget(targetConfig{rest: &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		CertData: authority,
		KeyData:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := target.get(t.Context(), "/", nil); err != nil {
		t.Error(err)
	}
}
