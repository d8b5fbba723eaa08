package verify

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// watcher opens random watches, one after another.
type watcher struct {
	run  *run
	id   string
	rand *rand.Rand
}

// Bounds of timeoutSeconds, after which the server ends a watch. The client ends some earlier.
const (
	minWatchSeconds = 1
	maxWatchSeconds = 3
)

// work opens watches until the context ends. Half of the watches that can be resumed are: the
// next watch then starts where the last watch ended, at any server.
func (w *watcher) work(ctx context.Context) {
	for ctx.Err() == nil {
		req := w.run.completeRequest(w.run.watchCycle.next(), w.rand)
		for resume := true; resume && ctx.Err() == nil; {
			got := w.watchOnce(ctx, req)
			if got.Status != http.StatusOK {
				pause(ctx, refusedPause)
			}
			last := got.watch.Last()
			if resume = got.Status == http.StatusOK && last > 0 && w.rand.IntN(2) == 0; resume {
				req.Class = versionSeen
				req.Version = strconv.FormatInt(last, 10)
				req.Match = ""
				req.Initial = false
			}
		}
	}
}

// watchOnce follows a watch to its end. It adds the watch to the record, unless the context ended
// before an answer came.
func (w *watcher) watchOnce(ctx context.Context, req Request) *watchRecord {
	seconds := minWatchSeconds + w.rand.IntN(maxWatchSeconds-minWatchSeconds+1)
	if w.rand.IntN(3) == 0 { // the client ends this one
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(w.rand.IntN(1000*seconds))*time.Millisecond)
		defer cancel()
	}
	rec := w.run.recordWatch(ctx, w.run.servers[w.rand.IntN(len(w.run.servers))], w.id, req, seconds)
	if rec.Status != 0 || ctx.Err() == nil {
		w.run.record.addWatch(rec, rec.outcome())
	}
	return rec
}

// recordWatch follows a watch until it ends or the context ends, and returns its record. The
// caller adds that to the run's record. A server that does not answer ends the watch s.timeout
// after the given seconds.
func (r *run) recordWatch(ctx context.Context, s *server, client string, req Request, seconds int) *watchRecord {
	rec := &watchRecord{Request: req, watch: watchcheck.Watch{Start: req.watchStart(r.fixture.namespace)}}
	rec.Server, rec.Client, rec.Called = s.index, client, r.now()
	defer func() { rec.Returned = r.now() }()
	query := req.query()
	query.Set("watch", "true")
	query.Set("timeoutSeconds", strconv.Itoa(seconds))
	if req.Initial {
		query.Set("sendInitialEvents", "true")
	}
	if req.Bookmarks {
		query.Set("allowWatchBookmarks", "true")
	}
	duration := time.Duration(seconds) * time.Second
	ctx, cancel := context.WithTimeout(ctx, duration+s.timeout)
	defer cancel()
	resp, err := s.open(ctx, http.MethodGet, r.path(&req), query, req.header(), nil)
	if err != nil {
		rec.Err = err.Error()
		return rec
	}
	defer resp.Body.Close()
	if rec.Status = resp.StatusCode; rec.Status != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		rec.Err = statusText(body)
		return rec
	}
	r.readFrames(ctx, resp, rec)
	rec.isLate = rec.firstFrameDelay(r.start) > duration-lateMargin
	return rec
}

// lateMargin is the time that initial events need. A watch whose first frame comes later than
// that before the timeout may have been closed before all of them were sent.
const lateMargin = 500 * time.Millisecond

// firstFrameDelay returns the time until the first frame of the watch, or until now if it has
// none. start is the start of the run.
func (w *watchRecord) firstFrameDelay(start time.Time) time.Duration {
	if len(w.watch.Frames) == 0 {
		return time.Since(start) - w.Called
	}
	return w.watch.Frames[0].Received.Sub(start) - w.Called
}

// readFrames reads the frames of a watch into its record, until the stream or the context ends.
func (r *run) readFrames(ctx context.Context, resp *http.Response, rec *watchRecord) {
	reader, err := watchcheck.NewReader(resp.Body, resp.Header.Get("Content-Type"))
	if err != nil {
		rec.Err = err.Error()
		return
	}
	for {
		_, frame, err := reader.Next()
		switch {
		case err == nil:
			// Servers may send the end of initial events to a watch without sendInitialEvents, too.
			rec.watch.End = rec.watch.End || frame.InitialEnd && rec.watch.Initial && rec.Bookmarks
			r.record.count.frames.Add(1)
			r.record.observe(frame.Revision)
			rec.watch.Frames = append(rec.watch.Frames, frame)
		case errors.Is(err, io.EOF):
			rec.watch.Ended = true
			return
		case ctx.Err() == nil:
			rec.watch.Err = err
			return
		default:
			return
		}
	}
}

// outcome returns the name of the watch's end in the scorecard.
func (w *watchRecord) outcome() string {
	switch {
	case w.isExpired():
		return outcomeGone
	case w.Status == 0:
		return "no answer"
	case w.Status == http.StatusOK && w.watch.Err != nil:
		return "broken"
	}
	return strconv.Itoa(w.Status)
}

// isExpired reports whether the server no longer has the changes after the watch's revision.
func (w *watchRecord) isExpired() bool {
	if w.Status == http.StatusGone {
		return true
	}
	n := len(w.watch.Frames)
	return n > 0 && w.watch.Frames[n-1].Status != nil && w.watch.Frames[n-1].Status.Code == http.StatusGone
}
