package apifeed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/apifeed"
)

// recorder is a sink that writes down what it gets, one line each.
type recorder struct {
	mu    sync.Mutex
	lines []string
	grown chan struct{}
}

func newRecorder() *recorder { return &recorder{grown: make(chan struct{}, 100)} }

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
	r.grown <- struct{}{}
}

func (r *recorder) BeginLoad() feed.Loader { r.note("begin"); return loader{r} }
func (r *recorder) Received(time.Time)     {}
func (r *recorder) Progressed(rv int64)    { r.note("progress %d", rv) }

func (r *recorder) Apply(_ context.Context, events []feed.Object) {
	for _, e := range events {
		verb := "PUT"
		if e.Deleted {
			verb = "DELETE"
		}
		r.note("%s %s %d %s", verb, e.Key, e.Revision, e.Value)
	}
}

type loader struct{ *recorder }

func (l loader) Expect(int64)            {}
func (l loader) Unchanged(string, int64) {}
func (l loader) Add(_ context.Context, kvs []feed.Object) {
	for _, kv := range kvs {
		l.note("add %s %d %s", kv.Key, kv.Revision, kv.Value)
	}
}
func (l loader) End(_ context.Context, rv int64) { l.note("end %d", rv) }

// expect waits until the sink has got the lines.
func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		got := slices.Clone(r.lines)
		r.mu.Unlock()
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-r.grown:
		case <-deadline:
			t.Fatalf("the sink got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// script answers each request by the next step whose condition it meets.
type script struct {
	t     *testing.T
	mu    sync.Mutex
	steps []step
}

// step answers a request whose query contains all words. A watch stays open until the
// request ends if hold is set.
type step struct {
	// path is not compared if it is empty.
	path   string
	query  []string
	status int
	body   string
	hold   bool
}

func (s *script) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	next := s.take(req)
	if next == nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	if next.status != 0 {
		w.WriteHeader(next.status)
	}
	fmt.Fprint(w, next.body)
	if next.hold {
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	}
}

func (s *script) take(req *http.Request) *step {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.steps) == 0 {
		return nil
	}
	next := s.steps[0]
	if next.path != "" && next.path != req.URL.Path {
		s.t.Errorf("request for %s, want %s", req.URL.Path, next.path)
	}
	if req.Header.Get("X-Millrace-Compress-Watch") != "1" || req.Header.Get("Accept-Encoding") != "gzip" {
		s.t.Errorf("request %s does not ask for compression: %v", req.URL, req.Header)
	}
	for _, word := range next.query {
		if !strings.Contains(req.URL.RawQuery, word) {
			s.t.Errorf("request %s, want one with %s", req.URL.RawQuery, word)
		}
	}
	s.steps = s.steps[1:]
	return &next
}

// run runs a feed against a script until the test ends, and returns what it does.
func run(t *testing.T, steps ...step) (*apifeed.Feed, *recorder, <-chan error) {
	t.Helper()
	return runWith(t, false, steps...)
}

func runWith(t *testing.T, protobuf bool, steps ...step) (*apifeed.Feed, *recorder, <-chan error) {
	t.Helper()
	server := httptest.NewServer(&script{t: t, steps: steps})
	sink := newRecorder()
	f := apifeed.New(apifeed.Config{Client: server.Client(), URL: server.URL + "/apis/x/v1/widgets", Protobuf: protobuf, Prefix: "/registry/x/widgets/", Sink: sink})
	return f, sink, runFeed(t, f, server)
}

// runFeed runs a feed until the test ends. The channel gets what Run returns.
func runFeed(t *testing.T, f *apifeed.Feed, server *httptest.Server) <-chan error {
	t.Helper()
	ended, done := make(chan error, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		ended <- f.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done; server.Close() })
	return ended
}

func widget(name string, rv int) string {
	return fmt.Sprintf(`{"apiVersion":"x/v1","kind":"Widget","metadata":{"name":%q,"namespace":"ns","resourceVersion":"%d"}}`, name, rv)
}

func event(kind, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)
}

func bookmark(rv int, ends bool) string {
	annotations := ""
	if ends {
		annotations = `,"annotations":{"k8s.io/initial-events-end":"true"}`
	}
	return event("BOOKMARK", fmt.Sprintf(`{"kind":"Widget","metadata":{"resourceVersion":"%d"%s}}`, rv, annotations))
}

// listed is a list of objects at a revision.
func listed(rv int, objects ...string) string {
	return fmt.Sprintf(`{"kind":"WidgetList","apiVersion":"x/v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, rv, strings.Join(objects, ","))
}

const expired = `{"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"too old"}`

// TestWatchList loads by a watch and follows it. The next watch resumes after the last
// bookmark.
func TestWatchList(t *testing.T) {
	t.Parallel()
	_, sink, _ := run(t,
		step{query: []string{"sendInitialEvents=true", "resourceVersionMatch=NotOlderThan"}, body: event("ADDED", widget("a", 4)) + event("ADDED", widget("b", 5)) +
			bookmark(7, true) + event("MODIFIED", widget("a", 8)) + event("DELETED", widget("b", 9)) + bookmark(12, false)},
		step{
			path: "/apis/x/v1/namespaces/ns/widgets", query: []string{"fieldSelector=metadata.name%3Da", "resourceVersion=12", "resourceVersionMatch=Exact"},
			body: listed(12, widget("a", 8)),
		},
		step{query: []string{"fieldSelector=metadata.name%3Db", "resourceVersion=12", "resourceVersionMatch=Exact"}, body: listed(12)},
		step{path: "/apis/x/v1/widgets", query: []string{"resourceVersion=12", "millraceBookmarkInterval="}, body: event("ADDED", widget("c", 13)), hold: true},
	)
	sink.expect(t, "begin", "add /registry/x/widgets/ns/a 4 "+widget("a", 4), "add /registry/x/widgets/ns/b 5 "+widget("b", 5), "end 7",
		"PUT /registry/x/widgets/ns/a 8 "+widget("a", 8), "DELETE /registry/x/widgets/ns/b 9 ", "progress 12",
		"PUT /registry/x/widgets/ns/c 13 "+widget("c", 13))
}

// TestPages loads by pages from a server without watch-lists, which refuses the parameter.
func TestPages(t *testing.T) {
	t.Parallel()
	_, sink, _ := run(t,
		step{query: []string{"sendInitialEvents=true"}, status: http.StatusUnprocessableEntity, body: "forbidden"},
		step{query: []string{"limit="}, body: `{"kind":"WidgetList","apiVersion":"x/v1","metadata":{"resourceVersion":"7","continue":"token"},"items":[` + widget("a", 4) + `]}`},
		step{query: []string{"continue=token"}, body: `{"kind":"WidgetList","apiVersion":"x/v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"b","namespace":"ns","resourceVersion":"5"}}]}`},
		step{query: []string{"resourceVersion=7"}, hold: true, body: bookmark(8, false)},
	)
	sink.expect(t, "begin", "add /registry/x/widgets/ns/a 4 "+widget("a", 4),
		`add /registry/x/widgets/ns/b 5 {"kind":"Widget","apiVersion":"x/v1","metadata":{"name":"b","namespace":"ns","resourceVersion":"5"}}`, "end 7", "progress 8")
}

// TestWatchListWithoutOrder loads by pages, which are in order, when the objects with which
// a watch begins are not. What the watch has sent is not used.
func TestWatchListWithoutOrder(t *testing.T) {
	t.Parallel()
	_, sink, _ := run(t,
		step{query: []string{"sendInitialEvents=true"}, body: event("ADDED", widget("b", 5)) + event("ADDED", widget("a", 4)) + bookmark(7, true), hold: true},
		step{query: []string{"limit="}, body: listed(8, widget("a", 4), widget("b", 5))},
		step{query: []string{"resourceVersion=8"}, hold: true, body: bookmark(9, false)},
	)
	sink.expect(t, "begin", "begin", "add /registry/x/widgets/ns/a 4 "+widget("a", 4), "add /registry/x/widgets/ns/b 5 "+widget("b", 5), "end 8", "progress 9")
}

// TestGoneBack ends when the server's revision is older than one that it has told of: in a
// load, and in a check of freshness.
func TestGoneBack(t *testing.T) {
	t.Parallel()
	t.Run("load", func(t *testing.T) {
		t.Parallel()
		_, _, ended := run(t,
			step{body: bookmark(7, true) + event("ERROR", expired)},
			step{body: bookmark(6, true), hold: true},
		)
		if err := <-ended; !errors.Is(err, feed.ErrWentBack) {
			t.Errorf("Run ended with %v", err)
		}
	})
	t.Run("check", func(t *testing.T) {
		t.Parallel()
		f, sink, ended := run(t,
			step{body: bookmark(7, true), hold: true},
			step{query: []string{"limit=1"}, body: `{"metadata":{"resourceVersion":"9"}}`},
			step{query: []string{"limit=1"}, body: `{"metadata":{"resourceVersion":"6"}}`},
		)
		sink.expect(t, "begin", "end 7")
		if revision, err := f.Revision(t.Context()); revision != 9 || err != nil {
			t.Errorf("revision %d, %v, want 9", revision, err)
		}
		if _, err := f.Revision(t.Context()); !errors.Is(err, feed.ErrWentBack) {
			t.Errorf("Revision returned %v", err)
		}
		if err := <-ended; !errors.Is(err, feed.ErrWentBack) {
			t.Errorf("Run ended with %v", err)
		}
	})
}

// TestSameRevision restarts a server with another history, whose newest revision is the one
// that the feed has. That proves nothing while the feed has not confirmed the history.
func TestSameRevision(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch query := req.URL.Query(); {
		case query.Get("watch") != "":
			fmt.Fprint(w, event("ADDED", widget("a", 5))+bookmark(7, true))
		case query.Get("fieldSelector") != "":
			close(asked)
			<-release
			fmt.Fprint(w, listed(7, widget("a", 6)))
		default:
			fmt.Fprint(w, listed(7))
		}
	}))
	sink := newRecorder()
	f := apifeed.New(apifeed.Config{Client: server.Client(), URL: server.URL + "/apis/x/v1/widgets", Prefix: "/registry/x/widgets/", Sink: sink})
	ended := runFeed(t, f, server)
	sink.expect(t, "begin", added+widget("a", 5), "end 7")
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if revision, err := f.Revision(ctx); err == nil {
		t.Errorf("the server is at %d, which proves what the feed has", revision)
	}
	close(release)
	if err := <-ended; !errors.Is(err, feed.ErrWentBack) {
		t.Errorf("Run ended with %v", err)
	}
}
