package read

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/apiserver/pkg/server/routine"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/h1"
	"github.com/millrace/millrace/internal/pull"
	"github.com/millrace/millrace/internal/slo"
	"github.com/millrace/millrace/internal/watch"
)

// watch answers a WATCH. What is wrong with a request that is well formed is
// told by an event, as Kubernetes does it.
func (q *query) watch(w http.ResponseWriter, req *http.Request) passReason {
	key, opts := q.storageOptions()
	opts.SendInitialEvents = q.options.SendInitialEvents
	opts.Predicate.AllowWatchBookmarks = q.options.AllowWatchBookmarks
	source := q.route.cfg.Source
	tells := source.CoversPredicate(&opts.Predicate)
	if !tells && q.route.cfg.Converter == nil {
		return passedSelector
	}
	begin, err := source.Begin(req.Context(), key, opts)
	if !tells {
		if err == nil {
			q.convertInitial(req, &begin)
		}
		return passedSelector
	}
	if errors.Is(err, cache.ErrExpired) {
		return passedHistory
	}
	s := &watchSession{query: q, req: req, begin: begin, err: err}
	if s.puller = puller(w, req); s.puller == nil {
		return passedConnection
	}
	s.wake.notify = s.puller.Wake
	if err == nil {
		selection := watch.Selection{Scope: begin.Scope, Labels: opts.Predicate.Label, Fields: opts.Predicate.Field}
		if source.Resource().Snapshot().Opaque > 0 || !s.findInitial(&selection) {
			return passedOpaque
		}
		if s.initial != nil && q.convert(req, s.initial.Spans) != nil {
			return passedConversion
		}
		s.cursor, s.err = q.route.cfg.Hub.Open(selection, begin.After, s.wake.notify)
		switch {
		case errors.Is(s.err, watch.ErrOpaque):
			return passedOpaque
		case errors.Is(s.err, cache.ErrExpired):
			s.err = source.Expired(begin.After)
		case s.err == nil:
			s.openAccount(&selection)
		}
	}
	s.w, s.observed = q.observe(w, req, "WATCH")
	q.session = s
	return ""
}

// puller is what takes the bytes of a watch, nil if its connection has nothing of the kind.
func puller(w http.ResponseWriter, req *http.Request) pull.Puller {
	w = responsewriter.GetOriginal(w)
	if p, ok := w.(pull.Puller); ok {
		return p
	}
	p, _ := h1.New(w, req)
	return p
}

// findInitial finds what existed. It returns false if bytes do not tell it.
func (s *watchSession) findInitial(selection *watch.Selection) bool {
	if s.begin.Initial == nil {
		return true
	}
	found := s.begin.Initial.Select(&cache.Query{
		Prefix: selection.Prefix, Single: selection.Single, Labels: selection.Labels, Fields: selection.Fields,
	})
	s.initial, s.begin.Initial = &found, nil
	return !found.Opaque
}

// timeout is how long the watch lasts.
func (q *query) timeout() time.Duration {
	if t := q.options.TimeoutSeconds; t != nil && *t > 0 {
		return time.Duration(*t) * time.Second
	}
	return time.Duration(float64(q.route.cfg.Shared.MinTimeout) * (rand.Float64() + 1))
}

// watchSession is a WATCH that is being served. Its cursor is driven by whoever writes to
// the connection. A client that is slow holds up nothing but its own connection, which
// keeps no more than one batch for it.
type watchSession struct {
	query *query
	req   *http.Request
	w     http.ResponseWriter
	// observed ends the observation of w. written is what went past it.
	observed func(written int64)
	written  int64
	flush    func()
	puller   pull.Puller

	begin   cache.StartPoint
	initial *cache.Selection
	// initialBytes is what was sent before and with them.
	initialBytes int
	err          error

	cursor *watch.Cursor
	// account may be nil.
	account  *slo.Watch
	out      encode.Stream
	schedule schedule
	wake     wakeSignal
	// broken says that the client went away.
	broken bool
}

// serve serves the watch. When it has begun, the rest is left to the request's task, if
// there is one: what the filters took of the stack is free then, and they take the watch
// for begun, with the seats that fairness gave it, for starting is what costs.
func (s *watchSession) serve() {
	task := routine.TaskFrom(s.req.Context())
	left := false
	defer func() {
		flowcontrol.WatchInitialized(s.req.Context())
		if !left {
			s.close()
		}
	}()
	s.schedule.start(time.Now(), s.query.timeout(), s.query.options.AllowWatchBookmarks)
	s.recordLongRunning(s.start)
	switch {
	case s.err != nil:
	case task != nil:
		task.Func, left = s.serveFollowing, true
		return
	default:
		flowcontrol.WatchInitialized(s.req.Context())
		s.recordLongRunning(s.run)
	}
	s.observed(s.written)
}

// serveFollowing serves a watch that has begun.
func (s *watchSession) serveFollowing() {
	defer s.close()
	s.recordLongRunning(s.run)
	s.observed(s.written)
}

// recordLongRunning counts the watch among those that are open.
func (s *watchSession) recordLongRunning(serve func()) {
	info, _ := request.RequestInfoFrom(s.req.Context())
	endpointmetrics.RecordLongRunning(s.req, info, endpointmetrics.APIServerComponent, serve)
}

// start sends the headers and what existed. A watch that fails ends with it.
func (s *watchSession) start() {
	s.sendHeaders()
	if s.err == nil {
		s.err = s.sendInitial()
	}
	if s.err != nil {
		s.end(s.err)
	}
}

// run sends what comes, to the end of the watch.
func (s *watchSession) run() { s.end(s.follow()) }

// close lets go of the watch's place.
func (s *watchSession) close() {
	if s.cursor != nil {
		s.cursor.Close()
		s.account.Close()
	}
}

// sendHeaders sends the headers. From then on the innermost writer is used: nobody in
// between looks at a watch's bytes.
func (s *watchSession) sendHeaders() {
	q := s.query
	q.warn(s.req)
	header := s.w.Header()
	header.Set("Content-Type", q.form.MediaType())
	header.Set("Transfer-Encoding", "chunked")
	if q.encoding != encode.Identity {
		header.Set("Content-Encoding", string(q.encoding))
		header.Add("Vary", "Accept-Encoding")
	}
	s.w.WriteHeader(http.StatusOK)
	http.NewResponseController(s.w).Flush()
	s.w = responsewriter.GetOriginal(s.w)
	s.flush = func() {}
	if flusher, ok := s.w.(http.Flusher); ok {
		s.flush = flusher.Flush
	}
	s.out = encode.Stream{Form: q.form, Head: q.head, Writer: s, Encoding: q.encoding, Observe: q.sizeObserver()}
}

// Write implements io.Writer for initial events, bookmarks and the end.
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

// end tells the client why the watch ends, unless that needs no words.
func (s *watchSession) end(err error) {
	if s.broken {
		return
	}
	switch {
	case errors.Is(err, errWatchEnded), errors.Is(err, watch.ErrOpaque):
		// The client resumes, and Kubernetes' handler tells it of odd objects.
	case errors.Is(err, cache.ErrExpired):
		s.query.metrics.countExpired(s.query.route.cfg.Resource.GroupResource())
		s.account.Expired()
		err = s.query.route.cfg.Source.Expired(s.begin.After)
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
