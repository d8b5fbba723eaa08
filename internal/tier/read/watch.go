package read

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/apiserver/pkg/server/routine"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/conn/h1"
	"github.com/millrace/millrace/internal/conn/pull"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/watch"
	"github.com/millrace/millrace/internal/wire/encode"
)

// watch prepares the session of a WATCH, which Wrap serves afterwards, or returns the reason to
// pass the request on. An error about a well-formed request is sent as an ERROR event, as
// Kubernetes does.
func (q *query) watch(w http.ResponseWriter, req *http.Request) passReason {
	if err := q.bookmarks.check(q.options.AllowWatchBookmarks); err != nil {
		q.answerError(w, req, err)
		return ""
	}
	if reason := q.skewedWatch(); reason != "" {
		return reason
	}
	key, opts := q.storageOptions()
	opts.SendInitialEvents = q.options.SendInitialEvents
	opts.Predicate.AllowWatchBookmarks = q.options.AllowWatchBookmarks
	source := q.route.cfg.Objects
	covers := source.CoversPredicate(&opts.Predicate)
	if !covers && q.route.cfg.Converter == nil {
		return passedSelector
	}
	begin, err := source.Begin(req.Context(), key, opts)
	if !covers {
		if err == nil {
			q.convertInitial(req, &begin)
		}
		return passedSelector
	}
	if reason := q.passReasonOf(err); reason != "" {
		return reason
	}
	s := &watchSession{query: q, req: req, startPoint: begin, err: err}
	if s.puller = puller(w, req); s.puller == nil {
		return passedConnection
	}
	s.setWake()
	s.requested = newRequestedBookmarks(&q.bookmarks, s.puller, req.RemoteAddr)
	if err == nil {
		if reason := s.openCursor(&opts.Predicate); reason != "" {
			return reason
		}
	}
	s.w, s.endObservation = q.observe(w, req, "WATCH")
	q.session = s
	return ""
}

// openCursor finds the initial events and opens the cursor and the account, or returns
// why Kubernetes must answer. If the answer is an error, it sets s.err and returns "".
func (s *watchSession) openCursor(selected *storage.SelectionPredicate) passReason {
	q := s.query
	source, begin := q.route.cfg.Objects, s.startPoint
	filter := watch.Filter{Scope: begin.Scope, Labels: selected.Label, Fields: selected.Field, Shard: q.shard}
	if source.Resource().Snapshot().Opaque > 0 || !s.findInitial(&filter) {
		return passedOpaque
	}
	if s.initial != nil && q.convert(s.req.Context(), s.initial.Runs) != nil {
		return passedConversion
	}
	wake := s.wake.notify
	if s.requested != nil {
		wake = s.requested.wakeCursor
	}
	s.cursor, s.err = q.route.cfg.Hub.Open(filter, begin.After, wake)
	switch {
	case errors.Is(s.err, watch.ErrOpaque):
		return passedOpaque
	case errors.Is(s.err, cache.ErrExpired) && q.tier.mayPassHistory():
		return passedHistory
	case s.err != nil && q.route.isSkewed():
		return passedSkewError
	case errors.Is(s.err, cache.ErrExpired):
		s.err = source.Expired(begin.After)
	case s.err == nil:
		s.openAccount(&filter)
	}
	return ""
}

// setWake makes the connection wake the watch. It also lets the watch be sent away, if
// the connection has a way to ask for that and the client is not this server.
func (s *watchSession) setWake() {
	s.wake.notify = s.puller.Wake
	if c, ok := s.puller.(interface{ GoAway() }); ok && !isOwn(s.req) {
		s.wake.goAway, s.wake.connection = c.GoAway, s.req.RemoteAddr
	}
}

// isOwn reports whether this server itself has sent a request, over the network.
func isOwn(req *http.Request) bool {
	u, ok := request.UserFrom(req.Context())
	return ok && u.GetName() == user.APIServerUser
}

// puller returns the side of the connection that takes a watch's bytes. It returns nil if
// the connection has none.
func puller(w http.ResponseWriter, req *http.Request) pull.Puller {
	w = responsewriter.GetOriginal(w)
	if p, ok := w.(pull.Puller); ok {
		return p
	}
	p, _ := h1.New(w, req)
	return p
}

// findInitial finds the objects with which the watch begins, if it begins with any, and drops
// the snapshot. It returns false if the objects cannot be sent because one is opaque.
func (s *watchSession) findInitial(filter *watch.Filter) bool {
	if s.startPoint.Initial == nil {
		return true
	}
	found := s.startPoint.Initial.Select(&cache.Query{
		Prefix: filter.Prefix, Single: filter.Single, Labels: filter.Labels, Fields: filter.Fields, Shard: filter.Shard,
	})
	s.initial, s.startPoint.Initial = &found, nil
	return !found.Opaque
}

// timeout returns how long the watch lasts. Watches that name no time end at random
// times, so that they do not all come back together.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.handleWatch; compare at each upgrade.
func (q *query) timeout() time.Duration {
	if t := q.options.TimeoutSeconds; t != nil && *t > 0 {
		return time.Duration(*t) * time.Second
	}
	return time.Duration(float64(q.route.cfg.Shared.MinTimeout) * (rand.Float64() + 1))
}

// watchSession is a WATCH that is being served.
//
// The request's goroutine sends the headers, the initial events, ordinary bookmarks and the end.
// Between them it waits in Pull, and a pull worker asks watchSource for events and requested
// bookmarks. So an event costs no goroutine switch per watch. A slow client delays only its own
// connection, for which at most one batch of changes is kept. The goroutine and the worker never
// use the session at the same time.
type watchSession struct {
	query *query
	req   *http.Request
	w     http.ResponseWriter
	// endObservation is what observe has returned.
	endObservation func(written int64)
	// written counts the bytes that Kubernetes' metrics do not see.
	written int64
	// flush flushes w. It is set with the headers.
	flush  func()
	puller pull.Puller

	startPoint cache.StartPoint
	// initial are the objects with which the watch begins. It is nil once they are sent, and
	// if there are none to send.
	initial *cache.Result
	// initialBytes counts the bytes of the initial events.
	initialBytes int
	// err is why the watch ends before it follows. It is nil if the watch follows.
	err error

	// cursor is nil if the watch does not follow.
	cursor *watch.Cursor
	// account is nil if no accounts are kept.
	account *slo.Watch
	// first is what another server has sent of the watch. It is nil if the watch begins here.
	first *encode.Stream
	// out makes the frames. It is set with the headers.
	out      encode.Stream
	schedule schedule
	wake     wakeSignal
	// requested is nil if the client asks for no bookmarks by name.
	requested *requestedBookmarks
	// broken says that a write or Pull failed, as when the client went away.
	broken bool
}

// serve serves the watch. If the request has a task, serve returns when the watch has
// begun and leaves the rest to the task. That frees the stack of the filters. It also
// gives the seats of priority and fairness back, because only the start of a watch is
// expensive.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.handleWatch; compare at each upgrade.
func (s *watchSession) serve() {
	task := routine.TaskFrom(s.req.Context())
	handedOver := false
	defer func() {
		flowcontrol.WatchInitialized(s.req.Context())
		if !handedOver {
			s.close()
		}
	}()
	s.schedule.start(time.Now(), s.query.timeout(), s.query.options.AllowWatchBookmarks)
	s.recordLongRunning(s.start)
	switch {
	case s.err != nil:
	case task != nil:
		task.Func, handedOver = s.serveFollowing, true
		return
	default:
		flowcontrol.WatchInitialized(s.req.Context())
		s.recordLongRunning(s.run)
	}
	s.endObservation(s.written)
}

// serveFollowing serves a watch that has begun.
func (s *watchSession) serveFollowing() {
	defer s.close()
	s.recordLongRunning(s.run)
	s.endObservation(s.written)
}

// recordLongRunning runs serve, and counts the watch as open meanwhile.
func (s *watchSession) recordLongRunning(serve func()) {
	info, _ := request.RequestInfoFrom(s.req.Context())
	endpointmetrics.RecordLongRunning(s.req, info, endpointmetrics.APIServerComponent, serve)
}

// start sends the headers and the initial events. If there is an error, it ends the watch.
func (s *watchSession) start() {
	s.sendHeaders()
	if s.err == nil {
		s.err = s.sendInitial()
	}
	if s.err != nil {
		s.end(s.err)
	}
}

// run sends events and bookmarks until the watch ends.
func (s *watchSession) run() { s.end(s.follow()) }

// close closes the cursor and the account.
func (s *watchSession) close() {
	if s.cursor != nil {
		s.cursor.Close()
		s.account.Close()
	}
}

// sendHeaders sends the headers. After that the innermost writer is used, because no
// wrapper of it needs to see a watch's bytes.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.WatchServer.HandleHTTP; compare at each upgrade.
func (s *watchSession) sendHeaders() {
	q := s.query
	q.warn(s.req)
	header := s.w.Header()
	header.Set("Content-Type", q.form.MediaType())
	header.Set("Transfer-Encoding", "chunked")
	q.bookmarks.setHeaders(header, q.route.cfg.Shared.Depth)
	setWatchEncoding(header, q.encoding)
	s.w.WriteHeader(http.StatusOK)
	http.NewResponseController(s.w).Flush()
	s.w = responsewriter.GetOriginal(s.w)
	s.flush = func() {}
	if flusher, ok := s.w.(http.Flusher); ok {
		s.flush = flusher.Flush
	}
	s.out = encode.Stream{Form: q.form, Head: q.firstForm, Writer: s, Encoding: q.encoding, Observe: q.sizeObserver()}
	if s.first != nil {
		s.out.Continue(s.first)
	}
}

// setWatchEncoding sets the headers of a watch that has a coding.
func setWatchEncoding(header http.Header, coding encode.Encoding) {
	if coding != encode.Identity {
		header.Set("Content-Encoding", string(coding))
		header.Add("Vary", "Accept-Encoding")
	}
}

// Write implements io.Writer for initial events, ordinary bookmarks and the end.
func (s *watchSession) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.broken = s.broken || err != nil
	s.written += int64(n)
	s.account.AddWithoutSpan(n, 0)
	if s.initial != nil {
		s.initialBytes += n
	}
	return n, err
}

// end sends the client why the watch ends, unless the reason needs no event, and then
// the end of the stream. It sends nothing to a client that is gone.
func (s *watchSession) end(err error) {
	if s.broken {
		return
	}
	switch {
	case errors.Is(err, errWatchEnded), errors.Is(err, watch.ErrOpaque):
		// The client resumes, and Kubernetes' handler answers for opaque objects.
	case s.query.route.isSkewed():
		s.endSkewed(err)
	case errors.Is(err, cache.ErrExpired):
		s.query.metrics.countExpired(s.query.route.cfg.Resource.GroupResource())
		s.account.Expired()
		err = s.query.route.cfg.Objects.Expired(s.startPoint.After)
		fallthrough
	default:
		var failure *encodingError
		if errors.As(err, &failure) {
			s.query.abortEncoding(err)
		}
		if err := s.encodingFailed(s.out.Signal("ERROR", watch.Status(err))); errors.As(err, &failure) {
			s.query.abortEncoding(err)
		}
	}
	_ = s.out.Close()
	s.flush()
}
