package watch

import "time"

// A bookmark tells a client the newest revision, so that the client can resume from there. It
// is sent once a minute, and once shortly before the request's deadline. The times are
// Kubernetes'.
const (
	bookmarkPeriod = time.Minute
	bookmarkLead   = 2 * time.Second
)

// NextBookmark returns the time from now until the next bookmark. It returns false if there is
// none before the deadline. A zero deadline means no deadline.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.cacheWatcher.nextBookmarkTime; compare at each upgrade.
func NextBookmark(now, deadline time.Time) (time.Duration, bool) {
	if deadline.IsZero() {
		return bookmarkPeriod, true
	}
	lead := deadline.Add(-bookmarkLead).Sub(now)
	return min(bookmarkPeriod, lead), lead >= 0
}
