package read

import (
	"errors"
	"time"

	apiwatch "k8s.io/apimachinery/pkg/watch"
	cachermetrics "k8s.io/apiserver/pkg/storage/cacher/metrics"

	"github.com/millrace/millrace/internal/tier/watch"
)

// errWatchEnded ends a watch without an event for the reason: its time is over, it leaves, or
// its request, its route or the server ends.
var errWatchEnded = errors.New("watch ended")

// sendInitial sends the initial events. If the client asked for them by sendInitialEvents
// and allows bookmarks, a bookmark marks their end.
func (s *watchSession) sendInitial() error {
	if s.initial == nil {
		return nil
	}
	err := s.encodingFailed(s.out.Initial(s.initial.Runs))
	if err != nil {
		return err
	}
	gr := s.query.route.cfg.Resource.GroupResource()
	cachermetrics.InitCounter.WithLabelValues(gr.Group, gr.Resource).Add(float64(s.initial.Plan.Candidates))
	s.account.AddWithoutSpan(0, s.initial.Count)
	s.initial = nil
	s.query.recordInitialEvents(s.req, s.initialBytes)
	o := &s.query.options
	if o.SendInitialEvents != nil && o.AllowWatchBookmarks {
		if err := s.bookmark(s.startPoint.After, true); err != nil {
			return err
		}
		s.query.recordWatchList(s.req)
		return nil
	}
	s.flush()
	return nil
}

// bookmark tells the client that it has seen everything up to revision.
func (s *watchSession) bookmark(revision int64, initialEventsEnd bool) error {
	obj, err := s.query.bookmarkObject(revision, initialEventsEnd)
	if err == nil {
		err = s.encodingFailed(s.out.Signal(apiwatch.Bookmark, obj))
	}
	if err == nil {
		s.flush()
	}
	return err
}

// follow sends events and bookmarks until the watch ends.
func (s *watchSession) follow() error {
	progress := s.query.route.cfg.Objects.Progress()
	if s.startPoint.After > progress.Revision() {
		s.schedule.revisionCheck = time.Now().Add(futureRevisionWait)
	}
	s.query.tier.followShutdown(s.req.Context())
	s.wake.start(s.req.Context(), s.schedule.pause(time.Now()), &s.query.tier.watches, &s.query.route.watches)
	defer s.wake.stop()
	defer s.startRequested()()
	return s.followPulled()
}

// runSchedule does what is due, and returns why the watch ends, or nil. Bookmarks wait until all
// events are sent. A client whose revision is ahead of the cache's is sent none. reached and
// more are as in watchSource.
func (s *watchSession) runSchedule(now time.Time, reached int64, more bool) error {
	t := &s.schedule
	if !now.Before(t.deadline) {
		return errWatchEnded
	}
	if more {
		return nil
	}
	s.wake.due.Store(false)
	if s.wake.leaving.Load() {
		return s.leave(reached)
	}
	if !t.bookmark.IsZero() && !now.Before(t.bookmark) {
		if to := max(reached, s.startPoint.After); to <= max(reached, s.query.route.cfg.Objects.Progress().Revision()) {
			if err := s.bookmark(to, false); err != nil {
				return err
			}
		}
		t.nextBookmark(now)
	}
	if !t.revisionCheck.IsZero() && !now.Before(t.revisionCheck) {
		if t.revisionCheck = (time.Time{}); reached < s.startPoint.After {
			t.revisionCheck = now.Add(futureRevisionWait)
			if err := s.query.route.cfg.Objects.Ahead(s.req.Context(), s.startPoint.After, s.query.options.ResourceVersion); err != nil {
				return err
			}
		}
	}
	s.wake.timer.Reset(t.pause(now))
	return nil
}

// futureRevisionWait is how long a watch waits for a revision that the cache has not
// reached, before it asks whether etcd has such a revision.
const futureRevisionWait = 5 * time.Second

// schedule says when a watch does something without an event. A zero time means never.
type schedule struct {
	// deadline is when the watch ends. Each watch has one.
	deadline time.Time
	// bookmark is when the next ordinary bookmark is due. revisionCheck is when to ask about
	// a revision ahead of the cache.
	bookmark, revisionCheck time.Time
}

func (t *schedule) start(now time.Time, timeout time.Duration, bookmarks bool) {
	t.deadline = now.Add(timeout)
	if bookmarks {
		t.nextBookmark(now)
	}
}

func (t *schedule) nextBookmark(now time.Time) {
	t.bookmark = time.Time{}
	if pause, ok := watch.NextBookmark(now, t.deadline); ok {
		t.bookmark = now.Add(pause)
	}
}

// next returns the earliest time.
func (t *schedule) next() time.Time {
	first := t.deadline
	for _, at := range []time.Time{t.bookmark, t.revisionCheck} {
		if !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

func (t *schedule) pause(now time.Time) time.Duration { return max(0, t.next().Sub(now)) }
