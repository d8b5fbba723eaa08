package read

import (
	"io"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/conn/pull"
)

// requestedBookmarks are the bookmarks that a watch's client asks for by name. They do not
// replace the ordinary ones of the schedule.
//
// The workers send them, as they send events, and the request's goroutine sleeps on. A
// bookmark that is due is a mark and has no bytes: its bytes are made when the connection
// asks the watch for some. So a client that does not read has one bookmark waiting for it
// at most, which then has the newest revision.
type requestedBookmarks struct {
	intervalWatch
	// revision is the revision that is still waited for. It is 0 if the watch waits for
	// none. It belongs to the goroutine that asks the source.
	revision int64
	// hasEvents says that the cursor must be read: it was woken since the last time.
	hasEvents atomic.Bool
}

// newRequestedBookmarks returns nil if nothing is asked for.
func newRequestedBookmarks(r *bookmarkRequest, p pull.Puller, connection string) *requestedBookmarks {
	if r.isZero() {
		return nil
	}
	b := &requestedBookmarks{intervalWatch: intervalWatch{puller: p, connection: connection}, revision: r.revision}
	b.hasEvents.Store(true)
	return b
}

// wakeCursor is the cursor's wake function.
func (b *requestedBookmarks) wakeCursor() {
	b.hasEvents.Store(true)
	b.puller.Wake()
}

// startRequested begins to wake the watch for its requested bookmarks. The returned
// function ends that.
func (s *watchSession) startRequested() (stop func()) {
	r, cfg := s.requested, &s.query.bookmarks
	if r == nil {
		return func() {}
	}
	forget := func() {}
	if r.revision > 0 {
		// The watch itself looks whether the revision is reached, each time it is woken.
		forget = s.query.route.cfg.Objects.Notify(max(r.revision, s.startPoint.After), r.puller.Wake)
	}
	timer := &s.query.tier.bookmarks
	if cfg.interval > 0 {
		timer.add(&r.intervalWatch, cfg.interval)
	}
	return func() {
		forget()
		if cfg.interval > 0 {
			timer.remove(&r.intervalWatch)
		}
	}
}

// isQuiet reports whether the cursor has no events, without asking it. So a heartbeat of a
// quiet resource touches neither the cursor nor the hub and its lock.
//
// The feed wakes the cursors of events before it moves the progress forward. So a cursor
// that was not woken has no events up to a progress that was read before the look.
func (p *watchSource) isQuiet() bool {
	r := p.requested
	if r == nil || p.more {
		return false
	}
	progress := p.query.route.cfg.Objects.Progress().Revision()
	if r.hasEvents.Load() {
		r.hasEvents.Store(false) // before the cursor is read: a wake meanwhile counts again
		return false
	}
	p.reached = max(p.reached, progress)
	return true
}

// appendRequested appends the requested bookmark that is due, unless there are events
// that go before it. It returns what Next returns.
func (p *watchSource) appendRequested(segments [][]byte, more bool) ([][]byte, bool, error) {
	r := p.requested
	if r == nil || p.more || p.cursorErr != nil || !p.takeRequested(r) {
		return segments, more, nil
	}
	before := len(segments)
	segments, p.err = p.out.AppendBookmark(segments, p.reached, p.bookmarkObject)
	if p.err != nil {
		p.err = &encodingError{p.err}
		return segments[:before], false, io.EOF
	}
	bytes := totalBytes(segments[before:])
	p.written += bytes
	if p.sendAccount != nil {
		p.sendAccount.QueueBytes(bytes)
	}
	return segments, more, nil
}

// takeRequested reports whether a bookmark is due, and notes that it is sent. A watch that
// begins after a revision is sent none before that revision is reached.
func (p *watchSource) takeRequested(r *requestedBookmarks) bool {
	due := r.due.Swap(false)
	switch {
	case p.reached < p.startPoint.After:
		return false
	case r.revision > 0 && p.reached >= r.revision:
		r.revision = 0
		p.query.metrics.revisionBookmarks.Inc()
		return true
	case due:
		p.query.metrics.intervalBookmarks.Inc()
	}
	return due
}

func (p *watchSource) bookmarkObject(revision int64) (runtime.Object, error) {
	return p.query.bookmarkObject(revision, false)
}
