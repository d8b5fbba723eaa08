package verify

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// watcher opens random watches, one after another.
type watcher struct {
	run  *run
	id   string
	rand *rand.Rand
}

// Times of a watch, in seconds. The server ends it, or the client does.
const (
	minWatchSeconds = 1
	maxWatchSeconds = 3
)

func (w *watcher) work(ctx context.Context) {
	for ctx.Err() == nil {
		req := w.pick()
		for resume := true; resume && ctx.Err() == nil; {
			got := w.open(ctx, req)
			if got.Status != http.StatusOK {
				pause(ctx, refusedPause)
			}
			// Now and then the next watch goes on where this one ended, at any server.
			last := got.watch.Last()
			if resume = got.Status == http.StatusOK && last > 0 && w.rand.IntN(2) == 0; resume {
				req.Class, req.Initial, req.Match, req.Version = known, false, "", strconv.FormatInt(last, 10)
			}
		}
	}
}

// pick makes the next request of the scorecard.
func (w *watcher) pick() Request {
	resources, req := w.run.fixture.resources, w.run.watches.next()
	req.Resource, req.Name, req.Half = resources[w.rand.IntN(len(resources))].name, w.run.keyName(w.rand), halves[w.rand.IntN(len(halves))]
	req.Version = w.run.version(w.rand, req.Class)
	return req
}

// open follows a watch to its end and notes it.
func (w *watcher) open(ctx context.Context, req Request) *watchRecord {
	seconds := minWatchSeconds + w.rand.IntN(maxWatchSeconds-minWatchSeconds+1)
	if w.rand.IntN(3) == 0 { // the client ends this one
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(w.rand.IntN(1000*seconds))*time.Millisecond)
		defer cancel()
	}
	rec := w.run.watch(ctx, w.run.servers[w.rand.IntN(len(w.run.servers))], w.id, req, seconds)
	if rec.Status != 0 || ctx.Err() == nil {
		w.run.record.addWatch(rec, rec.outcome())
	}
	return rec
}

// refusedPause is how long a client waits after a request that was not answered: a server that
// comes back is not met by a storm.
const refusedPause = 200 * time.Millisecond

// pause waits, but no longer than until the context ends.
func pause(ctx context.Context, how time.Duration) {
	select {
	case <-time.After(how):
	case <-ctx.Done():
	}
}

// watch follows a watch to its end, that of the context included.
func (r *run) watch(ctx context.Context, s *server, client string, req Request, seconds int) *watchRecord {
	rec := &watchRecord{Request: req, watch: watchcheck.Watch{Start: req.start(r.fixture.namespace)}}
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
	header := req.header()
	if req.Form == formMetadata { // an event has an object, and not a list
		header = (&Request{Verb: "get", Form: formMetadata}).header()
	}
	// A server that does not answer at all ends the watch here.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+s.timeout)
	defer cancel()
	resp, err := s.open(ctx, http.MethodGet, r.path(&req), query, header, nil)
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
	r.frames(ctx, resp, rec)
	rec.late = rec.silentFor(r.start) > time.Duration(seconds)*time.Second-beginningTime
	return rec
}

// beginningTime is how long initial events may take.
const beginningTime = 500 * time.Millisecond

// silentFor is how long the watch took until its first frame, or until now if it has none.
func (w *watchRecord) silentFor(start time.Time) time.Duration {
	if len(w.watch.Frames) == 0 {
		return time.Since(start) - w.Called
	}
	return w.watch.Frames[0].Received.Sub(start) - w.Called
}

func (r *run) frames(ctx context.Context, resp *http.Response, rec *watchRecord) {
	reader, err := watchcheck.NewReader(resp.Body, resp.Header.Get("Content-Type"))
	if err != nil {
		rec.Err = err.Error()
		return
	}
	for {
		_, frame, err := reader.Next()
		switch {
		case err == nil:
			// Servers may end the initial events of a watch without sendInitialEvents so, too.
			rec.watch.End = rec.watch.End || frame.InitialEnd && rec.watch.Initial && rec.Bookmarks
			r.record.count.events.Add(1)
			r.record.saw(frame.Revision)
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

// start is the request as history knows it.
func (req *Request) start(namespace string) watchcheck.Start {
	start := watchcheck.Start{
		Selection: watchcheck.Selection{Namespace: namespace}, Bookmarks: req.Bookmarks,
		Initial: req.Initial || req.Class == unset || req.Class == zero, End: req.Initial && req.Bookmarks,
	}
	if req.Class == known || req.Class == gone || req.Class == ahead {
		start.Revision, _ = strconv.ParseInt(req.Version, 10, 64)
	}
	switch req.Select {
	case selectLabel:
		start.Labels = labels.SelectorFromSet(labels.Set{halfLabel: req.Half})
	case selectField:
		start.Fields = fields.OneTermEqualSelector("metadata.name", req.Name)
	}
	return start
}

// outcome names the end of the watch in the scorecard.
func (w *watchRecord) outcome() string {
	switch {
	case w.expired():
		return outcomeGone
	case w.Status == 0:
		return "no answer"
	case w.Status == http.StatusOK && w.watch.Err != nil:
		return "broken"
	}
	return strconv.Itoa(w.Status)
}

// follower follows all objects of a resource at one server from the beginning of a run to
// its end. Followers tell at which revisions objects were deleted, which no answer to a
// write tells.
type follower struct {
	run      *run
	server   *server
	resource string
	// last gets the revision of the run's last write, and passed is closed when the follower
	// has passed it.
	last   chan int64
	passed chan struct{}
}

// followSeconds is how long a watch of a follower takes.
const followSeconds = 20

// work follows from a revision on, until it has passed the run's last write.
func (f *follower) work(ctx context.Context, from int64) {
	defer close(f.passed)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	goal, last := int64(0), f.last
	for ctx.Err() == nil && (goal == 0 || from < goal) {
		seconds := followSeconds
		if goal > 0 {
			seconds = minWatchSeconds
		}
		watching, stop := context.WithCancel(ctx)
		done := make(chan *watchRecord, 1)
		go func() { done <- f.run.watch(watching, f.server, "follower", f.request(from), seconds) }()
		var rec *watchRecord
		select {
		case goal = <-last:
			// The watch that is open may have passed it. The next ones are short.
			last = nil
			stop()
			rec = <-done
		case rec = <-done:
		}
		stop()
		rec.follows = true
		f.run.record.addWatch(rec, "")
		from = f.next(ctx, rec, from)
	}
}

// request is for a watch from a revision on, or from what the server has if it is 0.
func (f *follower) request(from int64) Request {
	req := Request{Verb: "watch", Resource: f.resource, Class: known, Version: strconv.FormatInt(from, 10), Bookmarks: true, Form: formJSON}
	if from == 0 {
		req.Class = zero
	}
	return req
}

// next is the revision behind which the next watch begins, 0 if the server no longer has it.
func (f *follower) next(ctx context.Context, rec *watchRecord, from int64) int64 {
	if rec.Status != http.StatusOK {
		pause(ctx, refusedPause)
	}
	if rec.expired() {
		f.run.record.gaps.Add(1) // what was missed, others may have seen
		return 0
	}
	for i := range rec.watch.Frames {
		if frame := &rec.watch.Frames[i]; frame.Type != watchcheck.Error {
			from = max(from, frame.Revision)
		}
	}
	return from
}

// expired reports whether the server no longer has the changes behind the watch's revision.
func (w *watchRecord) expired() bool {
	if w.Status == http.StatusGone {
		return true
	}
	n := len(w.watch.Frames)
	return n > 0 && w.watch.Frames[n-1].Status != nil && w.watch.Frames[n-1].Status.Code == http.StatusGone
}
