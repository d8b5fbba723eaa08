package handler_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	testclock "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/replica/document"
	"github.com/millrace/millrace/internal/replica/handler"
	"github.com/millrace/millrace/internal/replica/upstream"
)

// describer is an API server with documents. Its fields may change between requests.
type describer struct {
	*httptest.Server
	mu struct {
		sync.Mutex
		// body is the document of all paths, and etag its ETag. A request for it that does not
		// come within a path of "/apis" gets it without an ETag.
		body, etag string
		header     http.Header
		status     int
		// wait, if set, holds requests up until it is closed: those whose Accept begins with held.
		wait chan struct{}
		held string
	}
	// full and unchanged count answers.
	full, unchanged atomic.Int64
}

func startDescriber(t *testing.T) *describer {
	u := &describer{}
	u.set("one", `"1"`)
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

func (u *describer) set(body, etag string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.body, u.mu.etag = body, etag
}

func (u *describer) setStatus(status int, header http.Header) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.status, u.mu.header = status, header
}

// hold makes requests wait that ask for media types with a prefix, until the channel is
// closed.
func (u *describer) hold(until chan struct{}, prefix string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.wait, u.mu.held = until, prefix
}

func (u *describer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	u.mu.Lock()
	body, etag, wait, held, status := u.mu.body, u.mu.etag, u.mu.wait, u.mu.held, u.mu.status
	for name, values := range u.mu.header {
		w.Header()[name] = values
	}
	u.mu.Unlock()
	if wait != nil && strings.HasPrefix(req.Header.Get("Accept"), held) {
		<-wait
	}
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	if strings.HasPrefix(req.URL.Path, "/apis") {
		w.Header().Set("Etag", etag)
		w.Header().Set("Vary", "Accept")
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("X-Asked", strings.Join([]string{req.URL.RequestURI(), req.Header.Get("Accept"), req.Header.Get("Accept-Encoding"), req.Header.Get("X-Forwarded-For")}, "|"))
	if etag != "" && req.Header.Get("If-None-Match") == etag {
		u.unchanged.Add(1)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	u.full.Add(1)
	_, _ = io.WriteString(w, body)
}

// documentSetup is a handler with documents of a describer, and a clock that the test sets.
type documentSetup struct {
	upstream  *describer
	documents *document.Documents
	handler   http.Handler
	clock     *testclock.FakePassiveClock
	changes   atomic.Int64
	passedOn  atomic.Int64
}

// later is longer than a document holds without a question.
const later = 3 * time.Second

func newDocumentSetup(t *testing.T, bytes int64) *documentSetup {
	t.Helper()
	s := &documentSetup{upstream: startDescriber(t), clock: testclock.NewFakePassiveClock(time.Unix(1e9, 0))}
	counters, err := upstream.NewMetrics(func(metrics.Registerable) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	door, err := upstream.NewDoor(upstream.DoorConfig{
		Upstream: &rest.Config{Host: s.upstream.URL}, Metrics: counters, MayFollow: func(schema.GroupResource) bool { return false },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.documents = document.New(document.Config{
		Door: door, Metrics: counters, Clock: s.clock, Bytes: bytes,
		Local: func(gv schema.GroupVersion) bool { return gv.Group != "metrics.k8s.io" }, Changes: s.changes.Load,
	})
	h := handler.New(handler.Config{
		Reads: func(next http.Handler) http.Handler { return next }, Follow: func(schema.GroupVersionResource, bool) handler.Reason { return "" },
		Documents: s.documents, Metrics: counters,
		Authorizer: authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return authorizer.DecisionAllow, "", nil
		}),
		Proxy: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			s.passedOn.Add(1)
			_, _ = io.WriteString(w, "passed on")
		}),
	})
	resolver := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, err := resolver.NewRequestInfo(req)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Cache-Control", "set by a filter")
		w.Header().Set("Audit-Id", "id")
		client := &user.DefaultInfo{Name: cmp.Or(req.Header.Get("X-Test-User"), "tom")}
		h.ServeHTTP(w, req.WithContext(request.WithUser(request.WithRequestInfo(req.Context(), info), client)))
	})
	return s
}

// get sends a request with headers, which are pairs of name and value.
func (s *documentSetup) get(path string, headers ...string) *httptest.ResponseRecorder {
	header := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		header.Add(headers[i], headers[i+1])
	}
	return testRequest{method: http.MethodGet, path: path, header: header}.to(s.handler)
}

// getAs is get for another user than "tom".
func (s *documentSetup) getAs(name, path string, headers ...string) *httptest.ResponseRecorder {
	return s.get(path, append(headers, "X-Test-User", name)...)
}

func (s *documentSetup) pass(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }

// expect checks the answers that the upstream has given since the last call.
func (s *documentSetup) expect(t *testing.T, what string, full, unchanged int64) {
	t.Helper()
	if f, u := s.upstream.full.Swap(0), s.upstream.unchanged.Swap(0); f != full || u != unchanged {
		t.Errorf("%s: the upstream sent the document %d times and confirmed it %d times, want %d and %d", what, f, u, full, unchanged)
	}
}

func wantAnswer(t *testing.T, got *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if got.Code != status || got.Body.String() != body {
		t.Errorf("answer %d %q, want %d %q", got.Code, got.Body, status, body)
	}
}

// TestDocumentsAreKept asks for a document many times: the upstream confirms it once in a
// period, and sends it when it has changed.
func TestDocumentsAreKept(t *testing.T) {
	t.Parallel()
	s := newDocumentSetup(t, 0)
	for range 3 {
		got := s.get("/apis?timeout=32s")
		wantAnswer(t, got, http.StatusOK, "one")
		h := got.Result().Header
		if h.Get("Etag") != `"1"` || h.Get("Vary") != "Accept" || h.Get("Cache-Control") != "" || h.Get("Audit-Id") != "id" || h.Get("X-Asked") != "/apis|||" {
			t.Errorf("headers %v", h)
		}
	}
	s.expect(t, "at first", 1, 0)
	s.pass(later)
	wantAnswer(t, s.get("/apis"), http.StatusOK, "one")
	s.expect(t, "after a period", 0, 1)
	s.upstream.set("two", `"2"`)
	wantAnswer(t, s.get("/apis"), http.StatusOK, "one")
	s.pass(later)
	wantAnswer(t, s.get("/apis"), http.StatusOK, "two")
	s.expect(t, "after a change", 1, 0)
	for range 2 {
		wantAnswer(t, s.get("/version"), http.StatusOK, "two")
	}
	s.expect(t, "without an ETag", 1, 0)
	s.pass(later)
	wantAnswer(t, s.get("/version"), http.StatusOK, "two")
	s.expect(t, "without an ETag, after a period", 1, 0)
}

// TestDocumentsAreConfirmedAfterChanges: each request waits for the upstream after the
// replica has seen a change.
func TestDocumentsAreConfirmedAfterChanges(t *testing.T) {
	t.Parallel()
	s := newDocumentSetup(t, 0)
	s.get("/apis")
	s.changes.Add(1)
	s.pass(time.Millisecond)
	wantAnswer(t, s.get("/apis"), http.StatusOK, "one")
	s.pass(time.Millisecond)
	s.upstream.set("two", `"2"`)
	wantAnswer(t, s.get("/apis"), http.StatusOK, "two")
	s.expect(t, "after a change", 2, 1)
	s.pass(time.Minute)
	s.get("/apis")
	s.pass(time.Millisecond)
	s.get("/apis")
	s.expect(t, "when all is settled", 0, 1)
}

// TestQuestionsAreShared sends many requests at once. Those that arrive before the question
// begins have one for all of them.
func TestQuestionsAreShared(t *testing.T) {
	t.Parallel()
	s := newDocumentSetup(t, 0)
	wait := make(chan struct{})
	s.upstream.mu.wait = wait
	var running sync.WaitGroup
	for range 50 {
		running.Go(func() { wantAnswer(t, s.get("/apis"), http.StatusOK, "one") })
	}
	close(wait)
	running.Wait()
	s.expect(t, "50 requests", 1, 0)
}

// TestNotModified answers clients that have the document, as the upstream would.
func TestNotModified(t *testing.T) {
	t.Parallel()
	s := newDocumentSetup(t, 0)
	for range 2 {
		got := s.get("/apis", "If-None-Match", `"1"`)
		wantAnswer(t, got, http.StatusNotModified, "")
		if h := got.Result().Header; h.Get("Etag") != `"1"` || h.Get("Content-Length") != "" {
			t.Errorf("headers %v", h)
		}
	}
	s.expect(t, "a client that has it", 1, 1)
	wantAnswer(t, s.get("/apis", "If-None-Match", `"0"`), http.StatusOK, "one")
	wantAnswer(t, s.get("/apis", "If-None-Match", `"1"`, "If-Modified-Since", "Thu, 01 Jan 2026 00:00:00 GMT"), http.StatusNotModified, "")
	s.expect(t, "further clients", 0, 0)
	for _, odd := range [][]string{{"If-None-Match", `W/"1"`}, {"If-None-Match", `"0", "1"`}, {"If-None-Match", "*"}, {"If-Modified-Since", "Thu, 01 Jan 2026 00:00:00 GMT"}} {
		wantAnswer(t, s.get("/apis", odd...), http.StatusOK, "passed on")
	}
}

// TestDocumentKeys sends requests whose answers differ, and requests whose answers may.
func TestDocumentKeys(t *testing.T) {
	t.Parallel()
	s := newDocumentSetup(t, 0)
	for _, c := range []struct {
		path    string
		headers []string
		asked   string
	}{
		{"/apis", nil, "/apis|||"},
		{"/apis", []string{"Accept", "application/json"}, "/apis|application/json||"},
		{"/apis", []string{"Accept-Encoding", "gzip, deflate, br"}, "/apis||gzip|"},
		{"/apis", []string{"Accept-Encoding", "deflate, br"}, "/apis|||"},
		{"/api", []string{"Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}, ""},
		{"/api", nil, "/api|||192.0.2.1"},
		{"/openapi/v3/apis/apps/v1?hash=A", nil, "/openapi/v3/apis/apps/v1?hash=A|||"},
		{"/apis/apps/v1?pretty=true&timeout=5s", nil, "/apis/apps/v1?pretty=true|||"},
		{"/api/v1", []string{"Content-Type", "application/json"}, "/api/v1|||"},
		{"/apis?watch=1", nil, ""},
		{"/apis?timeout=-1s", nil, ""},
		{"/apis/apps%2Fv1", nil, ""},
		{"/apis", []string{"Accept", "a/b", "Accept", "c/d"}, ""},
		{"/apis", []string{"Accept", strings.Repeat("x", 600)}, ""},
		{"/apis", []string{"Accept-Encoding", "gzip;q=0.5"}, ""},
		{"/apis", []string{"Range", "bytes=0-1"}, ""},
		{"/apis", []string{"Origin", "https://example.com"}, ""},
		{"/apis", []string{"Content-Type", "text/plain"}, ""},
		{"/api", []string{"X-Forwarded-For", "10.0.0.1"}, ""},
	} {
		got := s.get(c.path, c.headers...)
		if asked := got.Result().Header.Get("X-Asked"); asked != c.asked {
			t.Errorf("%s %q: the upstream was asked %q, want %q", c.path, c.headers, asked, c.asked)
		}
		if (got.Body.String() == "passed on") != (c.asked == "") {
			t.Errorf("%s %q: answer %q", c.path, c.headers, got.Body)
		}
	}
}

// TestWhatIsNotKept passes requests on whose answers may be others for the next client, and
// asks no second time at once.
func TestWhatIsNotKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		header http.Header
	}{
		"not found": {http.StatusNotFound, nil},
		"cookie":    {0, http.Header{"Set-Cookie": {"a=b"}}},
		"varies":    {0, http.Header{"Vary": {"Accept, Origin"}}},
		"no store":  {0, http.Header{"Cache-Control": {"no-store"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newDocumentSetup(t, 0)
			s.upstream.setStatus(c.status, c.header)
			for range 2 {
				wantAnswer(t, s.get("/version"), http.StatusOK, "passed on")
			}
			if asked := s.upstream.full.Load(); asked > 1 {
				t.Errorf("the upstream was asked %d times", asked)
			}
		})
	}
}

// TestDocumentsOutliveTheUpstream keeps sending a document when the upstream is overloaded
// or gone.
func TestDocumentsOutliveTheUpstream(t *testing.T) {
	t.Parallel()
	s := newDocumentSetup(t, 0)
	s.get("/apis")
	s.upstream.setStatus(http.StatusTooManyRequests, nil)
	s.pass(later)
	wantAnswer(t, s.get("/apis"), http.StatusOK, "one")
	wantAnswer(t, s.get("/apis/new"), http.StatusOK, "passed on")
	s.upstream.Close()
	s.pass(later)
	s.changes.Add(1)
	wantAnswer(t, s.get("/apis"), http.StatusOK, "one")
}

// TestDocumentsAreBounded asks for more than there is room for.
func TestDocumentsAreBounded(t *testing.T) {
	t.Parallel()
	const bound = 1 << 20
	s := newDocumentSetup(t, bound)
	s.upstream.set(strings.Repeat("x", bound/16), `"1"`)
	for i := range 50 {
		if got := s.get("/apis", "Accept", fmt.Sprint("a/", i)); got.Body.Len() != bound/16 {
			t.Fatalf("answer of %d bytes", got.Body.Len())
		}
		s.get("/apis", "Accept", "often")
		if kept := s.documents.Bytes(); kept > bound {
			t.Fatalf("%d bytes are kept", kept)
		}
	}
	s.expect(t, "51 documents, one of them often", 51, 0)
	s.upstream.set(strings.Repeat("x", bound), `"2"`)
	for range 2 {
		wantAnswer(t, s.get("/apis/large"), http.StatusOK, "passed on")
	}
	s.expect(t, "a large document", 1, 0)
}

// TestUncleanPathsAreNotAsked sends paths that name another path when they are cleaned. The
// right to a document was asked for the path as it came, and rules match its beginning. So
// none of them is asked with the replica's own credentials.
func TestUncleanPathsAreNotAsked(t *testing.T) {
	t.Parallel()
	s := newDocumentSetup(t, 0)
	for _, path := range []string{
		"/openapi/v3/../../api/v1/secrets", "/openapi/v3/apis/../../../metrics", "/openapi/v3/..", "/openapi/v3/.", "/openapi/v3/./apis/apps/v1",
		"/openapi/v3//api/v1", "/openapi/v3/", "/openapi/v3/api/v1/", "/apis/..", "/apis/.", "/apis/../metrics", "/apis/apps/..", "/api/..", "/api/.",
		"/openapi/v3/%2e%2e/%2e%2e/api/v1/secrets", "/openapi/v3/..%2f..%2fapi/v1/secrets",
	} {
		if got := s.get(path); got.Body.String() != "passed on" {
			t.Errorf("%s is answered %d %q from %q, want it to be passed on", path, got.Code, got.Body, got.Result().Header.Get("X-Asked"))
		}
	}
	s.expect(t, "unclean paths", 0, 0)
	for _, path := range []string{"/openapi/v3/apis/apps/v1", "/apis/a..b"} {
		if got := s.get(path).Result().Header.Get("X-Asked"); got != path+"|||" {
			t.Errorf("%s is asked as %q", path, got)
		}
	}
}
