package verify

import (
	"context"
	"net/http"
	"strconv"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// follower follows all objects of a resource at one server, from the first revision of a run to
// its last write. The events of followers show at which revisions objects were deleted, which
// answers to deletions do not say.
type follower struct {
	run      *run
	server   *server
	resource string
	// goal gets the revision of the run's last write. passed is closed when the follower has
	// passed that revision, or when its context has ended.
	goal   chan int64
	passed chan struct{}
}

// followSeconds is the duration of a watch of a follower.
const followSeconds = 20

// work follows the changes after a revision, until it has passed the goal.
func (f *follower) work(ctx context.Context, from int64) {
	defer close(f.passed)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	goal := int64(0) // not known yet
	goals := f.goal
	for ctx.Err() == nil && (goal == 0 || from < goal) {
		seconds := followSeconds
		if goal > 0 {
			seconds = minWatchSeconds
		}
		watching, stop := context.WithCancel(ctx)
		done := make(chan *watchRecord, 1)
		go func() { done <- f.run.recordWatch(watching, f.server, "follower", f.request(from), seconds) }()
		var rec *watchRecord
		select {
		case goal = <-goals:
			// The open watch may have passed the goal already, so it is ended. The next ones are
			// short.
			goals = nil
			stop()
			rec = <-done
		case rec = <-done:
		}
		stop()
		rec.isFollower = true
		f.run.record.addWatch(rec, "")
		from = f.nextRevision(ctx, rec, from)
	}
}

// request returns the request for a watch after a revision. 0 is for all that the server has.
func (f *follower) request(from int64) Request {
	req := Request{
		Verb: "watch", Resource: f.resource, Class: versionSeen, Version: strconv.FormatInt(from, 10),
		Bookmarks: true, Encoding: encodingJSON,
	}
	if from == 0 {
		req.Class = versionZero
	}
	return req
}

// nextRevision returns the revision after which the next watch starts. It is 0 if the server no
// longer has the changes after from. It waits a moment if the server refused the watch.
func (f *follower) nextRevision(ctx context.Context, rec *watchRecord, from int64) int64 {
	if rec.Status != http.StatusOK {
		pause(ctx, refusedPause)
	}
	if rec.isExpired() {
		f.run.record.gaps.Add(1) // followers at other servers may have the events
		return 0
	}
	for i := range rec.watch.Frames {
		if frame := &rec.watch.Frames[i]; frame.Type != watchcheck.Error {
			from = max(from, frame.Revision)
		}
	}
	return from
}
