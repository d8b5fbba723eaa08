package feedtest

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// shortBookmark is when a short watch gets its bookmark. Such a watch is asked for in
	// seconds; kube-apiserver would send it two seconds before the end.
	shortBookmark = 20 * time.Millisecond
	// bookmarkPeriod is the same as kube-apiserver's.
	bookmarkPeriod = time.Minute
)

// stream is the answer to a watch.
type stream struct {
	io.Writer
	flush func()
	// end ends the answer in good order.
	end func()
}

func newStream(w http.ResponseWriter, compress bool) stream {
	w.Header().Set("Content-Type", "application/json")
	flush := w.(http.Flusher).Flush
	if !compress {
		return stream{w, flush, func() {}}
	}
	w.Header().Set("Content-Encoding", "gzip")
	packed := gzip.NewWriter(w)
	return stream{packed, func() { _ = packed.Flush(); flush() }, func() { _ = packed.Close() }}
}

func (s stream) send(kind, object string) {
	fmt.Fprintf(s, `{"type":%q,"object":%s}`+"\n", kind, object)
}

func (s stream) bookmark(revision int64, ends bool) {
	annotations := ""
	if ends {
		annotations = `,"annotations":{"k8s.io/initial-events-end":"true"}`
	}
	s.send("BOOKMARK", fmt.Sprintf(`{"kind":"Widget","apiVersion":"x/v1","metadata":{"resourceVersion":"%d"%s}}`, revision, annotations))
	s.flush()
}

// serveWatch serves a watch from a revision on, or one that begins with all objects.
func (s *APIServer) serveWatch(w http.ResponseWriter, req *http.Request, query url.Values) {
	initial := query.Get("sendInitialEvents") != ""
	if initial && !s.options.WatchLists {
		writeStatus(w, http.StatusUnprocessableEntity, "Invalid")
		return
	}
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	ctx, cancel := context.WithTimeout(req.Context(), time.Duration(seconds)*time.Second)
	defer cancel()
	out := newStream(w, s.options.Replica && req.Header.Get("X-Millrace-Compress-Watch") != "" && req.Header.Get("Accept-Encoding") == "gzip")
	defer out.end()
	current := s.snapshot()
	from, _ := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	switch {
	case initial:
		objects, _ := selected(current.objectsAt(current.revision), query)
		for _, o := range objects {
			out.send("ADDED", s.Value(o))
		}
		from = current.revision
		out.bookmark(from, true)
	case from < current.forgotten:
		out.send("ERROR", status(http.StatusGone, "Expired"))
		out.flush()
		return
	}
	out.flush()
	s.follow(ctx, out, from, s.bookmarkPeriod(seconds, query))
}

// bookmarkPeriod returns the time between bookmarks of a watch.
func (s *APIServer) bookmarkPeriod(seconds int, query url.Values) time.Duration {
	if asked, err := time.ParseDuration(query.Get("millraceBookmarkInterval")); err == nil && s.options.Replica {
		return asked
	}
	if query.Get("allowWatchBookmarks") == "" {
		return 24 * time.Hour
	}
	if seconds < int(bookmarkPeriod/time.Second) {
		return shortBookmark
	}
	return bookmarkPeriod
}

// follow sends all changes after sent, until the watch's time is over.
func (s *APIServer) follow(ctx context.Context, out stream, sent int64, period time.Duration) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	ends := s.snapshot().ends
	for sentAny := map[string]bool{}; ; {
		current := s.snapshot()
		for _, w := range current.log {
			if w.Revision <= sent {
				continue
			}
			switch {
			case w.Deleted:
				out.send("DELETED", s.Value(w))
			case sentAny[w.Name]:
				out.send("MODIFIED", s.Value(w))
			default: // feeds take both alike
				out.send("ADDED", s.Value(w))
			}
			sentAny[w.Name] = true
			sent = w.Revision
		}
		out.flush()
		select {
		case <-current.moved:
		case <-ticker.C:
			sent = max(sent, current.revision)
			out.bookmark(sent, false)
		case <-ends:
			return
		case <-ctx.Done():
			return
		}
	}
}
