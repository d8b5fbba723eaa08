package read_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// TestMalformedBookmarkRequests expects an answer that names the parameter and says what
// to do.
func TestMalformedBookmarkRequests(t *testing.T) {
	env := newWatchServer(t, false)
	env.load(t, "one/a")
	const interval, revision = "millraceBookmarkInterval", "millraceBookmarkAtRevision"
	for query, want := range map[string]string{
		interval + "=":                       "such as 500ms",
		interval + "=1":                      "such as 500ms",
		interval + "=soon":                   "such as 500ms",
		interval + "=-1s":                    "such as 500ms",
		interval + "=0s":                     "such as 500ms",
		interval + "=1s&" + interval + "=2s": "such as 500ms",
		revision + "=":                       "such as 12345",
		revision + "=x":                      "such as 12345",
		revision + "=0":                      "such as 12345",
		revision + "=-5":                     "such as 12345",
		revision + "=9223372036854775808":    "such as 12345",
		revision + "=1&" + revision + "=2":   "such as 12345",
	} {
		s := env.watch(t, bookmarkPath+"&"+query, nil)
		body, err := io.ReadAll(s.Body)
		name, _, _ := strings.Cut(query, "=")
		if err != nil || s.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), want) || !strings.Contains(string(body), name) {
			t.Errorf("%s: %d %s, want 400 with %q (%v)", query, s.StatusCode, body, want, err)
		}
	}
	for _, query := range []string{interval + "=1s", revision + "=1"} {
		s := env.watch(t, listPath+"?watch=1&resourceVersion=100&"+query, nil)
		if body, _ := io.ReadAll(s.Body); s.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "allowWatchBookmarks=true") {
			t.Errorf("%s without allowWatchBookmarks: %d %s", query, s.StatusCode, body)
		}
		if w := env.send(t, http.MethodGet, listPath+"?"+query, nil); w.Code != http.StatusOK {
			t.Errorf("a LIST with %s is answered with %d", query, w.Code)
		}
	}
}

// TestRequestedBookmarksOverTheWire compares requested bookmarks with the ordinary ones of
// the same watch, in all forms, over HTTP/1.1 and HTTP/2, with and without gzip.
func TestRequestedBookmarksOverTheWire(t *testing.T) {
	accepts := []string{
		runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, "application/json;as=Table;v=v1;g=meta.k8s.io",
		"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
	}
	for _, http2 := range []bool{false, true} {
		env := newWatchServer(t, http2)
		env.load(t, "one/a")
		for _, accept := range accepts {
			for _, coding := range []string{"identity", "gzip"} {
				t.Run(fmt.Sprintf("HTTP2=%v %s %s", http2, accept, coding), func(t *testing.T) {
					t.Parallel()
					env.compareBookmarks(t, http.Header{"Accept": {accept}, "Accept-Encoding": {coding}})
				})
			}
		}
	}
}

// compareBookmarks compares the first requested bookmark of a watch with the ordinary one
// of a watch that has only that frame.
func (env *watchServer) compareBookmarks(t *testing.T, header http.Header) {
	ordinary, err := io.ReadAll(plainBody(t, env.watch(t, bookmarkPath+"&timeoutSeconds=2", header)))
	if err != nil || len(ordinary) == 0 {
		t.Fatalf("ordinary bookmark %q (%v)", ordinary, err)
	}
	body := plainBody(t, env.watch(t, bookmarkPath+"&millraceBookmarkInterval=100ms&millraceBookmarkAtRevision=100", header))
	got := make([]byte, len(ordinary))
	if _, err := io.ReadFull(body, got); err != nil || !bytes.Equal(got, ordinary) {
		t.Fatalf("got %q (%v), want %q", got, err, ordinary)
	}
	if strings.Contains(header.Get("Accept"), "as=Table") {
		return // the first frame alone has the columns
	}
	for range 3 {
		if _, err := io.ReadFull(body, got); err != nil || !bytes.Equal(got, ordinary) {
			t.Fatalf("a later bookmark is %q (%v), want %q", got, err, ordinary)
		}
	}
}

// TestBookmarksAfterInitialEvents asks for bookmarks of a watch-list.
func TestBookmarksAfterInitialEvents(t *testing.T) {
	env := newWatchServer(t, true)
	env.load(t, "one/a", "one/b")
	s := env.watch(t, listPath+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&millraceBookmarkInterval=100ms&millraceBookmarkAtRevision=1", nil)
	s.want(t, "ADDED a 1", "ADDED b 2", "BOOKMARK  100", "BOOKMARK  100", "BOOKMARK  100", "BOOKMARK  100")
}

// plainBody decodes the body of a watch.
func plainBody(t *testing.T, s *stream) io.Reader {
	t.Helper()
	if s.Header.Get("Content-Encoding") != "gzip" {
		return s.Body
	}
	z, err := gzip.NewReader(s.Body)
	if err != nil {
		t.Fatal(err)
	}
	return z
}
