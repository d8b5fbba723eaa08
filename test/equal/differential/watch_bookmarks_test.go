package differential

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
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
	var running sync.WaitGroup
	for _, resource := range []string{"configmaps", "nodes", "widgets"} {
		k := named(gen.kinds, resource)
		for _, parameters := range bookmarkParameters {
			for _, accept := range []string{"", protobuf, kubectlGet, "application/yaml"} {
				r := request{path: k.listPath(""), accept: accept, query: fmt.Sprintf("watch=1&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion=%d", p.revision())}
				running.Go(func() {
					mismatch := "not compared"
					// Background writes may make a difference.
					for try := 0; try < 3 && mismatch != ""; try++ {
						mismatch = p.requestedBookmark(r, parameters.query, parameters.wrong)
					}
					if mismatch != "" {
						t.Errorf("%s with %s\n%s", r, parameters.query, mismatch)
					}
				})
			}
		}
	}
	running.Wait()
}

// requestedBookmark compares the answers to one watch with and without parameters. wrong
// says that the parameters are malformed.
func (p *pair) requestedBookmark(r request, parameters string, wrong bool) (mismatch string) {
	asking := r
	asking.query += parameters
	plain, err := p.theirs.do(r)
	if err != nil {
		return err.Error()
	}
	ours, theirs, err := p.both(asking)
	if err != nil {
		return err.Error()
	}
	if mismatch := p.watchDifference(r, theirs, plain); mismatch != "" {
		return "  the stock server answers differently\n" + mismatch
	}
	if passedOn := r.accept == "application/yaml" || plain.status != http.StatusOK; wrong && !passedOn {
		if ours.status != http.StatusBadRequest {
			return fmt.Sprintf("  status %d, want 400", ours.status)
		}
		return ""
	}
	bookmarks := ours.bookmarks()
	if asked := ours.removeBookmarkHeaders(); asked != (bookmarks > 0) || theirs.bookmarks() > 0 {
		return fmt.Sprintf("  %d bookmarks, headers say %v; the stock server sent %d", bookmarks, asked, theirs.bookmarks())
	}
	return p.watchDifference(asking, ours, theirs)
}

// bookmarks returns the number of bookmarks in the answer, 0 if it is no watch.
func (a *answer) bookmarks() (n int) {
	_, watch, err := a.watch()
	if err != nil {
		return 0
	}
	for i := range watch.Frames {
		if watch.Frames[i].Type == watchcheck.Bookmark {
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
