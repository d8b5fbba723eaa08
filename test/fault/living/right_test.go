package living

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/test/support/changingupstream"
)

const (
	// rightTTL is how long replicas remember what the upstream has said of a right.
	rightTTL = "1s"
	// rightGrace is how long a right holds that was revoked: two replicas may remember it one
	// after the other, and learn of it late.
	rightGrace = 4 * time.Second
	// rightPause is that between two requests of one account.
	rightPause = 40 * time.Millisecond
)

// seeker is a client of a front.
type seeker struct {
	front *front
	tally *tally
}

// seekRights reads with the token of an account whose right comes and goes.
func seekRights(ctx context.Context, client *changingupstream.Client, s *changingupstream.Script, by *seeker) {
	tally := by.tally
	for n := 0; ctx.Err() == nil; n++ {
		path := "/api/v1/namespaces/" + s.Namespaces[0] + "/configmaps"
		if n%2 == 0 {
			path += "?resourceVersion=0"
		}
		asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		a := client.Send(asked, changingupstream.Get(path))
		cancel()
		grace := rightGrace
		if s.Outages.Overlap(a.Began, a.Ended, reconnect) {
			grace = reconnect
		}
		given, missing := s.Right.PossibleStates(a.Began, a.Ended, grace)
		switch {
		case by.front.mayFail(a.Began) || a.Status != http.StatusOK && by.front.excuses(a, &s.Outages):
		case a.Status == http.StatusOK && !given:
			tally.find("answer without the right to it", "%s, %s", path, times(a))
		case a.Status == http.StatusForbidden && !missing:
			tally.find("403 in spite of the right", "%s, %s: %s", path, times(a), a.Message())
		case a.Status == http.StatusServiceUnavailable && a.Message() == "apiserver is shutting down": // and whether it may is judged elsewhere
		case a.Status == http.StatusTooManyRequests: // a busy machine: priority and fairness gave up
		case a.Status != http.StatusOK && a.Status != http.StatusForbidden:
			tally.find(undecided, "%s, %s: %d %s", path, times(a), a.Status, a.Message())
		}
		tally.add(func(t *tallyCounts) { t.rights++ })
		select {
		case <-ctx.Done():
		case <-time.After(rightPause):
		}
	}
}
