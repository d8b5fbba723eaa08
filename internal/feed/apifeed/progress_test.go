package apifeed_test

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/feed/apifeed"
)

// requestProgress requests progress, as readers that wait do, until the sink has the lines.
func requestProgress(t *testing.T, f *apifeed.Feed, sink *recorder, want ...string) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticker.C:
				_ = f.RequestProgress(t.Context())
			case <-done:
				return
			}
		}
	}()
	defer func() { ticker.Stop(); close(done); <-ended }()
	sink.expect(t, want...)
}

// TestShortWatch has a server whose watch of the feed tells nothing. A second watch tells
// that nothing has changed.
func TestShortWatch(t *testing.T) {
	t.Parallel()
	f, sink, _ := run(t,
		step{body: bookmark(7, true), hold: true},
		step{path: "/apis/x/v1/widgets", query: []string{"timeoutSeconds=3", "resourceVersion=7", "allowWatchBookmarks=true"}, body: bookmark(9, false)},
		step{query: []string{"timeoutSeconds=3", "resourceVersion=9"}, body: bookmark(12, false)},
	)
	sink.expect(t, "begin", "end 7")
	requestProgress(t, f, sink, "begin", "end 7", "progress 9", "progress 12")
}

// TestShortWatchThatIsAhead has second watches with an event that the feed's own watch has
// not sent yet, with an older bookmark, and without any. None of them proves anything.
func TestShortWatchThatIsAhead(t *testing.T) {
	t.Parallel()
	f, sink, _ := run(t,
		step{body: event("ADDED", widget("a", 4)) + bookmark(7, true), hold: true},
		step{query: []string{"timeoutSeconds=3"}, body: event("MODIFIED", widget("a", 8)) + bookmark(9, false)},
		step{query: []string{"timeoutSeconds=3"}, body: bookmark(6, false)},
		step{query: []string{"timeoutSeconds=3"}, body: ""},
		step{query: []string{"timeoutSeconds=3"}, body: bookmark(10, false)},
	)
	loaded := []string{"begin", "add /registry/x/widgets/ns/a 4 " + widget("a", 4), "end 7"}
	sink.expect(t, loaded...)
	requestProgress(t, f, sink, append(loaded, "progress 10")...)
}
