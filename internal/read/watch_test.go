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

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/h1"
	"github.com/millrace/millrace/internal/h2"
	"github.com/millrace/millrace/internal/pull"
	"github.com/millrace/millrace/internal/read"
	"github.com/millrace/millrace/internal/watch"
)

// watched is a tier behind a real server.
type watched struct {
	*tier
	hub      *watch.Hub
	server   *httptest.Server
	shutdown chan struct{}
}

// ShuttingDown implements request.ServerShutdownSignal.
func (x *watched) ShuttingDown() <-chan struct{} { return x.shutdown }

func newWatched(t testing.TB, http2 bool, changes ...change) *watched {
	t.Helper()
	x := &watched{shutdown: make(chan struct{})}
	x.tier = newTier(t, append(changes, func(c *read.RouteConfig) {
		x.hub = watch.NewHub(c.Source.Resource())
		c.Hub, c.Watches, c.MinTimeout, c.CompressWatches = x.hub, true, time.Hour, true
	})...)
	factory := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	x.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, err := factory.NewRequestInfo(req)
		if err != nil {
			t.Error(err)
		}
		ctx := request.WithServerShutdownSignal(request.WithRequestInfo(req.Context(), info), x)
		x.handler.ServeHTTP(w, req.WithContext(ctx))
	}))
	x.server.Listener = pull.NewListener(x.server.Listener, 0)
	h1.Configure(x.server.Config)
	if x.server.EnableHTTP2 = http2; http2 {
		if err := h2.New(h2.Config{}).Configure(x.server.Config); err != nil {
			t.Fatal(err)
		}
		x.server.TLS = x.server.Config.TLSConfig
	}
	x.server.StartTLS()
	t.Cleanup(x.server.Close)
	return x
}

// put writes an object.
func (x *watched) put(t testing.TB, key, value string, revision int64) {
	t.Helper()
	ns, name, _ := strings.Cut(key, "/")
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"text": value}}
	stored, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	x.cache.Apply(t.Context(), []*clientv3.Event{{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{
		Key: []byte("/registry/configmaps/" + key), Value: stored, ModRevision: revision, Version: 1,
	}}})
}

// stream is a watch that a client reads.
type stream struct {
	*http.Response
	lines *bufio.Scanner
	stop  context.CancelFunc
}

func (x *watched) watch(t *testing.T, target string, header http.Header) *stream {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.server.URL+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := x.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &stream{resp, bufio.NewScanner(resp.Body), stop}
}

// next reads a frame as "TYPE name resourceVersion", an error as "ERROR code
// reason", and "end".
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
			x := newWatched(t, http2)
			x.load(t, "one/a", "two/b")
			// Without a word of ours, Go's client asks for gzip and unpacks it.
			header := http.Header{"Accept-Encoding": {"identity"}}
			if compressed != "" {
				header = nil
			}
			s := x.watch(t, list+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", header)
			if s.StatusCode != http.StatusOK || s.Header.Get("Content-Type") != "application/json" || s.Uncompressed != (compressed != "") {
				t.Fatalf("status %d, header %v", s.StatusCode, s.Header)
			}
			s.want(t, "ADDED a 1", "ADDED b 2", "BOOKMARK  100")
			x.put(t, "one/a", "x", 101)
			s.want(t, "MODIFIED a 101")
			x.put(t, "one/c", "x", 102)
			s.want(t, "ADDED c 102")
			scoped := x.watch(t, "/api/v1/watch/namespaces/one/configmaps/a?resourceVersion=100", header)
			scoped.want(t, "MODIFIED a 101")
			close(x.shutdown)
			s.want(t, "end")
			scoped.want(t, "end")
		}
	}
}

func TestWatchEndsWithItsTimeout(t *testing.T) {
	x := newWatched(t, true)
	x.load(t, "one/a")
	s := x.watch(t, listOne+"?watch=1&timeoutSeconds=1&resourceVersion=100", nil)
	s.want(t, "end")
	// Two seconds before the end there is a bookmark.
	s = x.watch(t, listOne+"?watch=1&timeoutSeconds=2&resourceVersion=100&allowWatchBookmarks=true", nil)
	s.want(t, "BOOKMARK  100", "end")
	// A client that is ahead of the server is told nothing.
	s = x.watch(t, listOne+"?watch=1&timeoutSeconds=2&resourceVersion=200&allowWatchBookmarks=true", nil)
	s.want(t, "end")
}

// behind is a source whose feed has not said yet how far it has come.
type behind struct{ read.Source }

func (behind) Progress() *cache.Progress { return new(cache.Progress) }

// TestBookmarkIsNotBehindEvents has events arrive before the feed says that it has
// come so far.
func TestBookmarkIsNotBehindEvents(t *testing.T) {
	x := newWatched(t, true, func(c *read.RouteConfig) { c.Source = behind{c.Source} })
	x.load(t, "one/a")
	s := x.watch(t, listOne+"?watch=1&timeoutSeconds=3&resourceVersion=100&allowWatchBookmarks=true", nil)
	x.put(t, "one/a", "x", 101)
	s.want(t, "MODIFIED a 101", "BOOKMARK  101", "end")
}

func TestWatchIsLeftByItsClient(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		x := newWatched(t, http2)
		x.load(t, "one/a")
		s := x.watch(t, list+"?watch=1&resourceVersion=100", nil)
		if _, n := x.hub.Watches(); n != 1 {
			t.Fatalf("%d watches", n)
		}
		s.stop()
		deadline := time.NewTimer(10 * time.Second)
		tick := time.NewTicker(time.Millisecond)
		defer deadline.Stop()
		defer tick.Stop()
		for n := 1; n > 0; _, n = x.hub.Watches() {
			select {
			case <-tick.C:
			case <-deadline.C:
				t.Fatal("the watch goes on without its client")
			}
		}
	}
}

func TestWatchThatCannotGoOn(t *testing.T) {
	x := newWatched(t, true)
	x.load(t, "one/a")
	s := x.watch(t, list+"?watch=1&resourceVersion=1", nil)
	s.want(t, "ERROR 410 Expired", "end")
	s = x.watch(t, list+"?watch=1&resourceVersion=100", nil)
	x.put(t, "one/a", "x", 101)
	s.want(t, "MODIFIED a 101")
	x.load(t, "one/a") // what happened meanwhile is not known
	s.want(t, "ERROR 410 Expired", "end")
}

func TestWatchOfOddObjectsIsKubernetes(t *testing.T) {
	x := newWatched(t, true)
	x.load(t, "one/a")
	s := x.watch(t, list+"?watch=1&resourceVersion=100", nil)
	x.put(t, "one/a", "x", 101)
	x.put(t, "one/irregular", "x", 102)
	s.want(t, "MODIFIED a 101", "end")
	if s := x.watch(t, list+"?watch=1&resourceVersion=101", nil); s.StatusCode != passedOnStatus {
		t.Errorf("status %d, want that of Kubernetes' handler", s.StatusCode)
	}
}

// TestWatchRequests says which watches are passed on, and why.
func TestWatchRequests(t *testing.T) {
	for target, reason := range map[string]string{
		list + "/?watch=1":                                                          "path",
		list + "?watch=1&limit=a":                                                   "parameter",
		list + "?watch=1&resourceVersion=a":                                         "parameter",
		list + "?watch=1&resourceVersionMatch=Exact":                                "parameter",
		list + "?watch=1&timeoutSeconds=-1":                                         "parameter",
		list + "?watch=1&shardSelector=x":                                           "parameter",
		list + "?watch=1&fieldSelector=data%3Da":                                    "parameter",
		"/api/v1/watch/namespaces/one/configmaps/a?fieldSelector=metadata.name%3Db": "parameter",
		"/api/v1/watch/configmaps/a":                                                "path",
		"/api/v1/watch/pods":                                                        "resource",
	} {
		x := newWatched(t, false)
		x.load(t, "one/a")
		s := x.watch(t, target, nil)
		if s.StatusCode != passedOnStatus {
			t.Errorf("%s: status %d", target, s.StatusCode)
		}
		if reasons := x.reasons(t); reasons[reason] != 1 {
			t.Errorf("%s: counted %v, want %s", target, reasons, reason)
		}
	}
	x := newWatched(t, false)
	x.load(t, "one/a")
	for header, reason := range map[string]string{"Upgrade": "upgrade", "Accept": "accept"} {
		s := x.watch(t, list+"?watch=1", http.Header{header: {"application/yaml"}})
		if _, err := io.ReadAll(s.Body); err != nil || s.StatusCode != passedOnStatus || x.reasons(t)[reason] != 1 {
			t.Errorf("%s: status %d, counted %v (%v)", header, s.StatusCode, x.reasons(t), err)
		}
	}
}
