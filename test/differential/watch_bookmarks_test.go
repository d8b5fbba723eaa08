package differential

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/history"
)

// bookmarkParameters ask this server for bookmarks. The stock server does not know them.
// Those that are wrong get 400 from this server.
var bookmarkParameters = []struct {
	query string
	wrong bool
}{
	{query: "&millraceBookmarkInterval=100ms"},
	{query: "&millraceBookmarkAtRevision=1"},
	{query: "&millraceBookmarkInterval=200ms&millraceBookmarkAtRevision=1"},
	{query: "&millraceBookmarkInterval=soon", wrong: true},
	{query: "&millraceBookmarkAtRevision=-1&millraceBookmarkAtRevision=x", wrong: true},
}

// requestedBookmarks sends watches that ask for bookmarks by name. The stock server must
// answer as if they did not ask, without a warning. So must this server where it passes
// the watch on. Where it answers itself, it may differ in bookmarks and in the headers
// about them.
func (p *pair) requestedBookmarks(t *testing.T, gen *requestGenerator) {
	for _, resource := range []string{"configmaps", "events", "nodes", "widgets"} {
		k := named(gen.kinds, resource)
		for _, parameters := range bookmarkParameters {
			for _, accept := range []string{"", protobuf, kubectlGet, "application/yaml"} {
				r := request{path: k.listPath(""), accept: accept, query: fmt.Sprintf("watch=1&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion=%d", p.revision())}
				asking := r
				asking.query += parameters.query
				plain, err := p.theirs.do(r)
				if err != nil {
					t.Fatal(err)
				}
				ours, theirs, err := p.both(asking)
				if err != nil {
					t.Fatal(err)
				}
				if mismatch := p.watchDifference(r, theirs, plain); mismatch != "" {
					t.Errorf("%s: the stock server is not the same with %s\n%s", r, parameters.query, mismatch)
				}
				if passedOn := accept == "application/yaml" || plain.status != http.StatusOK; parameters.wrong && !passedOn {
					if ours.status != http.StatusBadRequest {
						t.Errorf("%s: status %d, want 400", asking, ours.status)
					}
					continue
				}
				bookmarks := ours.bookmarks()
				if asked := ours.removeBookmarkHeaders(); asked != (bookmarks > 0) {
					t.Errorf("%s: %d bookmarks, headers say %v", asking, bookmarks, asked)
				}
				if mismatch := p.watchDifference(asking, ours, theirs); mismatch != "" || theirs.bookmarks() > 0 {
					t.Errorf("%s: %d bookmarks of the stock server\n%s", asking, theirs.bookmarks(), mismatch)
				}
			}
		}
	}
}

// bookmarks returns the number of bookmarks in the answer, 0 if it is no watch.
func (a *answer) bookmarks() (n int) {
	_, watch, err := a.watch()
	if err != nil {
		return 0
	}
	for i := range watch.Frames {
		if watch.Frames[i].Type == history.Bookmark {
			n++
		}
	}
	return n
}

// removeBookmarkHeaders removes the headers about requested bookmarks. It reports whether
// there were any.
func (a *answer) removeBookmarkHeaders() (found bool) {
	a.header = a.header.Clone()
	for name := range a.header {
		if strings.HasPrefix(name, "X-Millrace-Bookmark-") {
			found = true
			a.header.Del(name)
		}
	}
	return found
}
