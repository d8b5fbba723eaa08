package watch

import "time"

// A client that resumes from a bookmark is close to now: there is one each
// minute, and one shortly before the request's deadline. The times are
// Kubernetes'.
const (
	bookmarkPeriod = time.Minute
	bookmarkLead   = 2 * time.Second
)

// NextBookmark returns when the next bookmark is due, if there is one before the
// deadline. The zero deadline is none.
func NextBookmark(now, deadline time.Time) (time.Duration, bool) {
	if deadline.IsZero() {
		return bookmarkPeriod, true
	}
	lead := deadline.Add(-bookmarkLead).Sub(now)
	return min(bookmarkPeriod, lead), lead >= 0
}
