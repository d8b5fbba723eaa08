package dashboard_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/account/dashboard"
	"github.com/millrace/millrace/internal/account/dashboard/fake"
	"github.com/millrace/millrace/internal/account/serverreport"
)

func ask(h http.Handler, method, path string, header ...string) *http.Response {
	req := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Result()
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestHandler(t *testing.T) {
	source := fake.New().Source()
	source.CRDs = nil
	h := dashboard.Handler(source)
	for _, c := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "/debug/millrace/slo", 200, `"met":false`},
		{"HEAD", "/debug/millrace/slo", 200, ""},
		{"GET", "/debug/millrace/watchers", 200, `"subscriptions":5120`},
		{"GET", "/debug/millrace/lists", 200, `"path":"scan"`},
		{"GET", "/debug/millrace/memory", 200, `"v1 protobuf":141000000`},
		{"GET", "/debug/millrace/feed", 200, `"prefix":"/registry/"`},
		{"GET", "/debug/millrace/feed?pretty", 200, "\n  \"feeds\": ["},
		{"GET", "/debug/millrace/feed?pretty=true", 200, "\n  \"feeds\": ["},
		{"GET", "/debug/millrace", 200, `{"paths":["/debug/millrace/feed",`},
		{"GET", "/debug/millrace/", 200, `{"paths":["/debug/millrace/feed",`},
		{"GET", "/debug/millrace/crds", 404, "there are feed, lists, memory, replica, slo, watchers"},
		{"GET", "/debug/millrace/slo/", 404, `"reason":"NotFound"`},
		{"POST", "/debug/millrace/slo", 405, "use GET"},
		{"DELETE", "/debug/millrace/", 405, "use GET"},
	} {
		resp := ask(h, c.method, c.path)
		got := body(t, resp)
		if resp.StatusCode != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %d %.200s, want %d with %s", c.method, c.path, resp.StatusCode, got, c.code, c.want)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "Content-Type": "application/json", "X-Content-Type-Options": "nosniff"} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s %s: %s is %q, want %q", c.method, c.path, name, got, want)
			}
		}
		if c.method != "HEAD" && !json.Valid([]byte(got)) {
			t.Errorf("%s %s is no JSON", c.method, c.path)
		}
		if allow := resp.Header.Get("Allow"); (c.code == 405) != (allow == "GET, HEAD") {
			t.Errorf("%s %s: Allow is %q", c.method, c.path, allow)
		}
	}
}

// TestReportsAreShared requests a report many times at once. It is made once for all.
func TestReportsAreShared(t *testing.T) {
	var made atomic.Int64
	h := dashboard.Handler(dashboard.Source{Memory: func() serverreport.MemoryReport {
		made.Add(1)
		return serverreport.MemoryReport{Goroutines: 7}
	}})
	began := time.Now()
	var readers sync.WaitGroup
	for range 64 {
		readers.Go(func() { ask(h, "GET", "/debug/millrace/memory") })
	}
	readers.Wait()
	if most := 1 + int64(time.Since(began)/(500*time.Millisecond)); made.Load() > most {
		t.Errorf("made %d times for 64 readers, at most %d wanted", made.Load(), most)
	}
}

func TestShell(t *testing.T) {
	front, err := dashboard.Shell()
	if err != nil {
		t.Fatal(err)
	}
	h := front(http.HandlerFunc(protected))
	for path, mediaType := range map[string]string{"": "text/html", "app.js": "text/javascript", "style.css": "text/css", "icon.svg": "image/svg+xml", "table.js": "text/javascript"} {
		resp := ask(h, "GET", "/millrace/"+path)
		if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), mediaType) {
			t.Errorf("%s: %s of type %s", path, resp.Status, resp.Header.Get("Content-Type"))
		}
		policy := resp.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
				t.Errorf("%s has the policy %s", path, policy)
			}
		}
		if etag := resp.Header.Get("ETag"); etag == "" || ask(h, "GET", "/millrace/"+path, "If-None-Match", etag).StatusCode != 304 {
			t.Errorf("%s is sent in full to a client that has its entity tag", path)
		}
		if resp := ask(h, "HEAD", "/millrace/"+path); resp.StatusCode != 200 || body(t, resp) != "" {
			t.Errorf("HEAD of %s: %s", path, resp.Status)
		}
	}
	for _, other := range [][2]string{
		{"POST", "/millrace/"}, {"PUT", "/millrace/app.js"}, {"GET", "/millrace/index.html"}, {"GET", "/millrace/../api"}, {"GET", "/millrace/app.js/"}, {"GET", "/millrace//app.js"},
		{"GET", "/millrace/static/app.js"}, {"GET", "/api/v1/secrets"}, {"GET", "/debug/millrace/slo"}, {"GET", "/"}, {"GET", "/millraces/"},
	} {
		if resp := ask(h, other[0], other[1]); resp.StatusCode != 401 {
			t.Errorf("%s %s: %s, want it passed on to the next handler", other[0], other[1], resp.Status)
		}
	}
	if resp := ask(h, "GET", "/millrace"); resp.StatusCode != 301 || resp.Header.Get("Location") != "/millrace/" {
		t.Errorf("/millrace leads to %s", resp.Header.Get("Location"))
	}
}

func protected(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "protected", http.StatusUnauthorized)
}

// TestShellCosts sends unauthenticated requests that try to cost more than a page.
func TestShellCosts(t *testing.T) {
	front, err := dashboard.Shell()
	if err != nil {
		t.Fatal(err)
	}
	h := front(http.HandlerFunc(protected))
	resp := ask(h, "GET", "/millrace/style.css")
	whole, etag := body(t, resp), resp.Header.Get("ETag")
	ranges := "bytes=" + strings.TrimSuffix(strings.Repeat("1-1,", 7000), ",")
	for _, r := range []string{"bytes=0-0", ranges, "nonsense"} {
		resp := ask(h, "GET", "/millrace/style.css", "Range", r, "If-Range", etag)
		if got := body(t, resp); resp.StatusCode != 200 || got != whole || resp.Header.Get("Accept-Ranges") != "" {
			t.Errorf("range %.20s: %s, %d bytes", r, resp.Status, len(got))
		}
	}
}

// TestShellConnections loads the page over HTTP/2, again and again. A browser keeps its
// connection. One that asks for more than a browser does loses it.
func TestShellConnections(t *testing.T) {
	front, err := dashboard.Shell()
	if err != nil {
		t.Fatal(err)
	}
	h := front(http.HandlerFunc(protected))
	closes := func(path string) bool {
		req := httptest.NewRequest("GET", path, nil)
		req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/2.0", 2, 0
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w.Header().Get("Connection") == "close"
	}
	for i := range 45 {
		if closes("/millrace/app.js") {
			t.Fatalf("the connection is closed at request %d", i)
		}
	}
	for range 50 {
		closes("/millrace/app.js")
	}
	for _, path := range []string{"/millrace/", "/millrace", "/millrace/app.js", "/other"} {
		if got := closes(path); got != (path != "/other") {
			t.Errorf("%s: the connection is closed: %t", path, got)
		}
	}
}

// TestShellLimit floods the page from one address. Its requests are limited, but neither
// other addresses nor requests for other handlers.
func TestShellLimit(t *testing.T) {
	front, err := dashboard.Shell()
	if err != nil {
		t.Fatal(err)
	}
	h := front(http.HandlerFunc(protected))
	from := func(address, path string) *http.Response {
		req := httptest.NewRequest("GET", path, nil)
		req.RemoteAddr = address
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w.Result()
	}
	served, began := 0, time.Now()
	for i := range 5000 {
		resp := from(fmt.Sprintf("192.0.2.1:%d", 1024+i), "/millrace/style.css")
		switch resp.StatusCode {
		case 200:
			served++
		case 429:
			if resp.Header.Get("Retry-After") == "" {
				t.Fatal("429 without Retry-After")
			}
		default:
			t.Fatal(resp.Status)
		}
	}
	if most := 101 + int(20*time.Since(began).Seconds()); served < 100 || served > most {
		t.Errorf("%d requests of one address were served, at most %d wanted", served, most)
	}
	if resp := from("192.0.2.1:1", "/api"); resp.StatusCode != 401 {
		t.Errorf("a request for the next handler: %s", resp.Status)
	}
	others := 0
	for i := range 64 {
		if from(fmt.Sprintf("[2001:db8:%x::1]:1", i), "/millrace/").StatusCode == 200 {
			others++
		}
	}
	if others < 32 {
		t.Errorf("%d of 64 other addresses were served", others)
	}
}
