package replay

import (
	"strconv"

	"github.com/millrace/millrace/internal/wire/watchevent"
)

// watchReader counts the events, except bookmarks, of a watch whose body is written to it.
type watchReader struct {
	reader  watchevent.Reader
	changes int64
	// onRevision is required. It is called with the resource version of each event.
	onRevision func(revision uint64)
}

// Write implements io.Writer.
func (w *watchReader) Write(b []byte) (int, error) {
	return len(b), w.reader.Feed(b, func(event *watchevent.Event) {
		if event.Type != watchevent.Bookmark {
			w.changes++
		}
		if revision, err := strconv.ParseUint(string(event.Revision), 10, 64); err == nil {
			w.onRevision(revision)
		}
	})
}
