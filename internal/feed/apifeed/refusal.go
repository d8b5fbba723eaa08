package apifeed

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/feed"
)

// errExpired says that the server no longer has the events after a revision.
var errExpired = errors.New("the API server no longer has the changes")

// statusError returns the error of an answer. Errors come as JSON or as text, which is
// enough for a log. A client's error is a feed.Refusal, unless it passes by itself.
func statusError(code int, body []byte) error {
	switch code {
	case http.StatusGone:
		return fmt.Errorf("%w: %.200q", errExpired, body)
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
	default:
		if code >= 400 && code < 500 {
			return &feed.Refusal{Status: code, Said: string(body)}
		}
	}
	return fmt.Errorf("status %d: %.200q", code, body)
}

// refusedStatus returns the status of a refusal. It returns 0 if the error is not a
// refusal.
func refusedStatus(err error) int {
	var refusal *feed.Refusal
	if errors.As(err, &refusal) {
		return refusal.Status
	}
	return 0
}

// isInvalid reports whether the server found a request invalid: it does not know what was
// asked for, as a server without watch-lists.
func isInvalid(err error) bool {
	code := refusedStatus(err)
	return code == http.StatusBadRequest || code == http.StatusUnprocessableEntity
}

// isRefusedAlike reports whether the server refuses more than the one question: the resource
// is not served, or the feed may not read it.
func isRefusedAlike(err error) bool {
	code := refusedStatus(err)
	return code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusNotFound
}

// refusal is a refusal that lasts.
type refusal struct {
	status int
	since  time.Time
}

// RefusalStatus returns the status with which the server refuses the feed, and since when. The
// status is 0 if the server does not refuse the feed. A refusal lasts until the feed follows,
// also if the server was away meanwhile.
func (f *Feed) RefusalStatus() (status int, since time.Time) {
	if r := f.refusal.Load(); r != nil {
		return r.status, r.since
	}
	return 0, time.Time{}
}

// noteRefusal records a refusal. It reports whether the refusal is the first, or has another
// status than the refusal before.
func (f *Feed) noteRefusal(status int) (changed bool) {
	last := f.refusal.Load()
	if last != nil && last.status == status {
		return false
	}
	next := &refusal{status: status, since: time.Now()}
	if last != nil {
		next.since = last.since
	}
	f.refusal.Store(next)
	return true
}

// Retry ends the pause of a feed that waits to try again, or its next pause.
func (f *Feed) Retry() {
	select {
	case f.retry <- struct{}{}:
	default: // a retry is pending
	}
}
