package read

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The parameters by which the client of a WATCH asks for bookmarks, and the headers that
// say what it will get. Kubernetes ignores parameters that it does not know. So it answers
// without the headers, also when a watch is passed on to it.
//
// The names have the project's name in front, because Kubernetes might give a plain name
// another meaning. They are in Kubernetes' spelling of parameters, in which no character
// has to be escaped.
const (
	bookmarkIntervalParameter = "millraceBookmarkInterval"
	bookmarkRevisionParameter = "millraceBookmarkAtRevision"
	bookmarkIntervalHeader    = "X-Millrace-Bookmark-Interval"
	bookmarkRevisionHeader    = "X-Millrace-Bookmark-At-Revision"
)

// depthHeader says in the answer to a WATCH with bookmarks at an interval how many replicas its
// events come through.
const depthHeader = "X-Millrace-Depth"

// minBookmarkInterval is the shortest interval. Shorter ones are raised to it.
const minBookmarkInterval = 100 * time.Millisecond

// bookmarkRequest is what the client of a WATCH asks for. The zero value asks for nothing.
type bookmarkRequest struct {
	// interval is the time between bookmarks. Zero asks for none at an interval.
	interval time.Duration
	// revision asks for one bookmark once this revision is reached. Zero asks for none.
	revision int64
	// err says what is wrong with the parameters.
	err error
}

// parseBookmarkRequest parses the parameters of a WATCH.
func parseBookmarkRequest(values url.Values) (r bookmarkRequest) {
	intervals, revisions := values[bookmarkIntervalParameter], values[bookmarkRevisionParameter]
	if len(intervals) > 0 {
		interval, err := time.ParseDuration(intervals[0])
		if err != nil || interval <= 0 || len(intervals) > 1 {
			r.err = fmt.Errorf("%s=%q: give one duration of %v or more, such as 500ms or 2s", bookmarkIntervalParameter, intervals, minBookmarkInterval)
			return r
		}
		r.interval = max(interval, minBookmarkInterval)
	}
	if len(revisions) > 0 {
		revision, err := strconv.ParseInt(revisions[0], 10, 64)
		if err != nil || revision <= 0 || len(revisions) > 1 {
			r.err = fmt.Errorf("%s=%q: give one resource version of an object or a list, such as 12345", bookmarkRevisionParameter, revisions)
			return r
		}
		r.revision = revision
	}
	return r
}

// isZero reports whether nothing is asked for.
func (r *bookmarkRequest) isZero() bool { return r.interval == 0 && r.revision == 0 && r.err == nil }

// check returns the error to answer. It returns nil if the request is valid. allowed says
// that the client allows bookmarks. If it does not, other servers would send none, and the
// client would not find out why. So that is an error.
func (r *bookmarkRequest) check(allowed bool) error {
	switch {
	case r.err != nil:
		return apierrors.NewBadRequest(r.err.Error())
	case !r.isZero() && !allowed:
		return apierrors.NewBadRequest(fmt.Sprintf("%s and %s need allowWatchBookmarks=true: add that parameter, or leave these out",
			bookmarkIntervalParameter, bookmarkRevisionParameter))
	}
	return nil
}

// setHeaders says in the header what the client will get. depth is SharedConfig.Depth.
func (r *bookmarkRequest) setHeaders(header http.Header, depth func() int) {
	if r.interval > 0 {
		header.Set(bookmarkIntervalHeader, r.interval.String())
	}
	if r.interval > 0 && depth != nil {
		header.Set(depthHeader, strconv.Itoa(depth()))
	}
	if r.revision > 0 {
		header.Set(bookmarkRevisionHeader, strconv.FormatInt(r.revision, 10))
	}
}
