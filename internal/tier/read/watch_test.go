package read_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/conn/h1"
	"github.com/millrace/millrace/internal/conn/h2"
	"github.com/millrace/millrace/internal/conn/pull"
	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/tier/watch"
)

// watchServer serves a tier, with watches, on a real HTTP server.
type watchServer struct {
	*testTier
	hub      *watch.Hub
	server   *httptest.Server
	shutdown chan struct{}
}

// ShuttingDown implements request.ServerShutdownSignal.
func (env *watchServer) ShuttingDown() <-chan struct{} { return env.shutdown }

func newWatchServer(t testing.TB, http2 bool, changes ...configChange) *watchServer {
	t.Helper()
	env := &watchServer{shutdown: make(chan struct{})}
	compressAll := func(c *read.RouteConfig) { c.Shared.CompressWatches = read.CompressAllWatches }
	env.testTier = newTestTier(t, append(append([]configChange{compressAll}, changes...), func(c *read.RouteConfig) {
		env.hub = watch.NewHub(c.Objects.Resource())
		c.Hub, c.Watches, c.Shared.MinTimeout = env.hub, true, time.Hour
	})...)
	factory := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	env.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, err := factory.NewRequestInfo(req)
		if err != nil {
			t.Error(err)
		}
		ctx := request.WithServerShutdownSignal(request.WithRequestInfo(req.Context(), info), env)
		env.handler.ServeHTTP(w, req.WithContext(ctx))
	}))
	env.server.Listener = pull.NewListener(env.server.Listener, 0)
	h1.Configure(env.server.Config)
	if env.server.EnableHTTP2 = http2; http2 {
		if err := h2.New(h2.Config{}).Configure(env.server.Config); err != nil {
			t.Fatal(err)
		}
		env.server.TLS = env.server.Config.TLSConfig
	}
	env.server.StartTLS()
	t.Cleanup(env.server.Close)
	return env
}

// put applies the write of a config map with the given text to the cache.
func (env *watchServer) put(t testing.TB, key, value string, revision int64) {
	t.Helper()
	ns, name, _ := strings.Cut(key, "/")
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"text": value}}
	stored, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	env.putValue(t, key, stored, revision)
}

// putValue applies the write of an object's stored bytes to the cache.
func (env *watchServer) putValue(t testing.TB, key string, stored []byte, revision int64) {
	t.Helper()
	env.cache.Apply(t.Context(), []feed.Object{{
		Key: []byte("/registry/configmaps/" + key), Value: stored, Revision: revision,
	}})
}

// stream is the response to a watch, read line by line.
type stream struct {
	*http.Response
	lines *bufio.Scanner
	stop  context.CancelFunc
}

func (env *watchServer) watch(t *testing.T, target string, header http.Header) *stream {
	t.Helper()
	return env.watchBy(t, env.server.Client(), target, header)
}

func (env *watchServer) watchBy(t *testing.T, client *http.Client, target string, header http.Header) *stream {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, env.server.URL+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &stream{resp, bufio.NewScanner(resp.Body), stop}
}

// next reads a frame and returns it as "TYPE name resourceVersion". An error frame is
// returned as "ERROR code reason", the end of the stream as "end".
func (s *stream) next(t *testing.T) string {
	t.Helper()
	if !s.lines.Scan() {
		return "end"
	}
	var event struct {
		Type   string
		Object struct {
			Metadata metav1.ObjectMeta
			Code     json.Number
			Reason   string
		}
	}
	if err := json.Unmarshal(s.lines.Bytes(), &event); err != nil {
		t.Fatal(err)
	}
	if event.Type == "ERROR" {
		return "ERROR " + event.Object.Code.String() + " " + event.Object.Reason
	}
	return event.Type + " " + event.Object.Metadata.Name + " " + event.Object.Metadata.ResourceVersion
}

func (s *stream) want(t *testing.T, frames ...string) {
	t.Helper()
	for _, want := range frames {
		if got := s.next(t); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func TestWatch(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for _, compressed := range []string{"", "gzip"} {
			env := newWatchServer(t, http2)
			env.load(t, "one/a", "two/b")
			// Without an Accept-Encoding header, Go's client asks for gzip and unzips
			// the response.
			header := http.Header{"Accept-Encoding": {"identity"}}
			if compressed != "" {
				header = nil
			}
			s := env.watch(t, listPath+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", header)
			if s.StatusCode != http.StatusOK || s.Header.Get("Content-Type") != "application/json" || s.Uncompressed != (compressed != "") {
				t.Fatalf("status %d, header %v", s.StatusCode, s.Header)
			}
			s.want(t, "ADDED a 1", "ADDED b 2", "BOOKMARK  100")
			env.put(t, "one/a", "x", 101)
			s.want(t, "MODIFIED a 101")
			env.put(t, "one/c", "x", 102)
			s.want(t, "ADDED c 102")
			scoped := env.watch(t, "/api/v1/watch/namespaces/one/configmaps/a?resourceVersion=100", header)
			scoped.want(t, "MODIFIED a 101")
			close(env.shutdown)
			s.want(t, "BOOKMARK  102", "end")
			scoped.want(t, "end")
		}
	}
}

func TestWatchEndsWithItsTimeout(t *testing.T) {
	env := newWatchServer(t, true)
	env.load(t, "one/a")
	s := env.watch(t, listOnePath+"?watch=1&timeoutSeconds=1&resourceVersion=100", nil)
	s.want(t, "end")
	// The server sends a bookmark two seconds before the timeout.
	s = env.watch(t, listOnePath+"?watch=1&timeoutSeconds=2&resourceVersion=100&allowWatchBookmarks=true", nil)
	s.want(t, "BOOKMARK  100", "end")
	// A client with a newer revision than the server's gets no bookmark.
	s = env.watch(t, listOnePath+"?watch=1&timeoutSeconds=2&resourceVersion=200&allowWatchBookmarks=true", nil)
	s.want(t, "end")
}

// laggingSource is a source whose feed has not reported any progress yet.
type laggingSource struct{ read.Objects }

func (laggingSource) Progress() *cache.Progress { return new(cache.Progress) }

// TestBookmarkIsNotBehindEvents applies an event before the feed reports its revision. The
// bookmark must have the event's revision all the same.
func TestBookmarkIsNotBehindEvents(t *testing.T) {
	env := newWatchServer(t, true, func(c *read.RouteConfig) { c.Objects = laggingSource{c.Objects} })
	env.load(t, "one/a")
	s := env.watch(t, listOnePath+"?watch=1&timeoutSeconds=3&resourceVersion=100&allowWatchBookmarks=true", nil)
	env.put(t, "one/a", "x", 101)
	s.want(t, "MODIFIED a 101", "BOOKMARK  101", "end")
}

func TestWatchIsLeftByItsClient(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		env := newWatchServer(t, http2)
		env.load(t, "one/a")
		s := env.watch(t, listPath+"?watch=1&resourceVersion=100", nil)
		if _, n := env.hub.Watches(); n != 1 {
			t.Fatalf("%d watches", n)
		}
		s.stop()
		deadline := time.NewTimer(10 * time.Second)
		tick := time.NewTicker(time.Millisecond)
		defer deadline.Stop()
		defer tick.Stop()
		for n := 1; n > 0; _, n = env.hub.Watches() {
			select {
			case <-tick.C:
			case <-deadline.C:
				t.Fatal("the watch goes on without its client")
			}
		}
	}
}

func TestWatchThatCannotGoOn(t *testing.T) {
	env := newWatchServer(t, true)
	env.load(t, "one/a")
	s := env.watch(t, listPath+"?watch=1&resourceVersion=1", nil)
	s.want(t, "ERROR 410 Expired", "end")
	s = env.watch(t, listPath+"?watch=1&resourceVersion=100", nil)
	env.put(t, "one/a", "x", 101)
	s.want(t, "MODIFIED a 101")
	env.load(t, "one/a") // a load interrupts the history
	s.want(t, "ERROR 410 Expired", "end")
}

func TestWatchOfOpaqueObjectsIsPassedOn(t *testing.T) {
	env := newWatchServer(t, true)
	env.load(t, "one/a")
	s := env.watch(t, listPath+"?watch=1&resourceVersion=100", nil)
	env.put(t, "one/a", "x", 101)
	env.put(t, "one/irregular", "x", 102)
	s.want(t, "MODIFIED a 101", "end")
	if s := env.watch(t, listPath+"?watch=1&resourceVersion=101", nil); s.StatusCode != passedOnStatus {
		t.Errorf("status %d, want that of Kubernetes' handler", s.StatusCode)
	}
}

// TestWatchRequests lists the watches that are passed on, each with its passReason.
func TestWatchRequests(t *testing.T) {
	for target, reason := range map[string]string{
		listPath + "/?watch=1":                                                      "path",
		listPath + "?watch=1&limit=a":                                               "parameter",
		listPath + "?watch=1&resourceVersion=a":                                     "parameter",
		listPath + "?watch=1&resourceVersionMatch=Exact":                            "parameter",
		listPath + "?watch=1&timeoutSeconds=-1":                                     "parameter",
		listPath + "?watch=1&fieldSelector=data%3Da":                                "parameter",
		"/api/v1/watch/namespaces/one/configmaps/a?fieldSelector=metadata.name%3Db": "parameter",
		"/api/v1/watch/configmaps/a":                                                "path",
		"/api/v1/watch/pods":                                                        "resource",
	} {
		env := newWatchServer(t, false)
		env.load(t, "one/a")
		s := env.watch(t, target, nil)
		if s.StatusCode != passedOnStatus {
			t.Errorf("%s: status %d", target, s.StatusCode)
		}
		if reasons := env.reasons(t); reasons[reason] != 1 {
			t.Errorf("%s: counted %v, want %s", target, reasons, reason)
		}
	}
	env := newWatchServer(t, false)
	env.load(t, "one/a")
	for header, reason := range map[string]string{"Upgrade": "upgrade", "Accept": "accept"} {
		s := env.watch(t, listPath+"?watch=1", http.Header{header: {"application/yaml"}})
		if _, err := io.ReadAll(s.Body); err != nil || s.StatusCode != passedOnStatus || env.reasons(t)[reason] != 1 {
			t.Errorf("%s: status %d, counted %v (%v)", header, s.StatusCode, env.reasons(t), err)
		}
	}
}
