package apifeed_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/feed/apifeed"
)

const (
	emptyWidgets  = `{"kind":"WidgetList","apiVersion":"x/v1","metadata":{"resourceVersion":"3"},"items":[]}` + "\n"
	widgetsEnd    = `{"kind":"Widget","apiVersion":"x/v1","metadata":{"resourceVersion":"3","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"size":null}}`
	plainBookmark = `{"kind":"Widget","apiVersion":"x/v1","metadata":{"resourceVersion":"3","creationTimestamp":null},"spec":{"size":null}}`
)

// runVerbatim runs a feed of objects that are sent on as they come.
func runVerbatim(t *testing.T, handler http.Handler, namespaced bool) (*apifeed.Feed, *recorder) {
	t.Helper()
	server, sink := httptest.NewServer(handler), newRecorder()
	f := apifeed.New(apifeed.Config{
		Client: server.Client(), URL: server.URL + "/apis/x/v1/widgets", Prefix: "/registry/x/widgets/", Sink: sink, Verbatim: true, Namespaced: namespaced,
	})
	runFeed(t, f, server)
	return f, sink
}

// TestSurroundings asks a server with watch-lists what it sends around objects, before any
// object is loaded. The first bookmark takes the place of the one that was made.
func TestSurroundings(t *testing.T) {
	t.Parallel()
	observed := `{"kind":"Widget","apiVersion":"x/v1","metadata":{"resourceVersion":"9"},"spec":{"size":null}}`
	steps := &script{t: t, steps: []step{
		{query: []string{"fieldSelector=metadata.name%3Dmillrace-"}, body: emptyWidgets},
		{query: []string{"fieldSelector=metadata.name%3Dmillrace-", "sendInitialEvents=true"}, body: event("BOOKMARK", widgetsEnd), hold: true},
		{path: "/apis/x/v1/widgets", query: []string{"sendInitialEvents=true"}, body: event("ADDED", widget("a", 4)) + bookmark(7, true), hold: true},
	}}
	paths := make(chan string, 10)
	f, sink := runVerbatim(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		paths <- req.URL.Path
		w.Header().Set("Warning", `299 - "widgets are \"old\""`)
		steps.ServeHTTP(w, req)
	}), true)
	sink.expect(t, "begin", "add /registry/x/widgets/ns/a 4 "+widget("a", 4), "end 7")
	for range 2 {
		if path := <-paths; !strings.HasPrefix(path, "/apis/x/v1/namespaces/millrace-") || !strings.HasSuffix(path, "/widgets") {
			t.Errorf("the question was sent to %s", path)
		}
	}
	s := f.Surroundings()
	if string(s.EmptyList) != emptyWidgets || string(s.InitialEventsEnd) != widgetsEnd || string(s.Bookmark) != plainBookmark {
		t.Errorf("surroundings are %s, %s, %s", s.EmptyList, s.InitialEventsEnd, s.Bookmark)
	}
	if len(s.Warnings) != 1 || s.Warnings[0] != `widgets are "old"` {
		t.Errorf("warnings are %q", s.Warnings)
	}

	steps = &script{t: t, steps: []step{
		{path: "/apis/x/v1/widgets", query: []string{"fieldSelector=metadata.name%3Dmillrace-"}, body: emptyWidgets},
		{body: event("BOOKMARK", widgetsEnd), hold: true},
		{body: bookmark(7, true) + event("BOOKMARK", observed), hold: true},
	}}
	f, sink = runVerbatim(t, steps, false)
	sink.expect(t, "begin", "end 7", "progress 9")
	if s := f.Surroundings(); string(s.Bookmark) != observed || len(s.Warnings) > 0 {
		t.Errorf("the bookmark is %s, warnings are %q", s.Bookmark, s.Warnings)
	}
}

// TestSurroundingsWithoutWatchLists knows no bookmark of a server that refuses watch-lists,
// before it has sent one.
func TestSurroundingsWithoutWatchLists(t *testing.T) {
	t.Parallel()
	f, sink := runVerbatim(t, &script{t: t, steps: []step{
		{body: emptyWidgets},
		{query: []string{"sendInitialEvents=true"}, status: http.StatusUnprocessableEntity, body: "forbidden"},
		{query: []string{"sendInitialEvents=true"}, status: http.StatusUnprocessableEntity, body: "forbidden"},
		{query: []string{"limit="}, body: listed(7)},
		{query: []string{"resourceVersion=7"}, body: event("ADDED", widget("a", 8)), hold: true},
	}}, true)
	sink.expect(t, "begin", "end 7", "PUT /registry/x/widgets/ns/a 8 "+widget("a", 8))
	if s := f.Surroundings(); s.Bookmark != nil || s.InitialEventsEnd != nil {
		t.Errorf("bookmarks are %s and %s", s.Bookmark, s.InitialEventsEnd)
	}
}
