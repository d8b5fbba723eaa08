package read

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

const (
	// takeOverPause is the time between two attempts to take over a watch that is sent no event
	// meanwhile.
	takeOverPause = 250 * time.Millisecond
	// maxHistoryWatches bounds the watches that the other server sends now because the cache
	// lacks their events. Further watches get 410: after a reload of the cache, all would come.
	maxHistoryWatches = 128
)

// takenOverLater says for which reasons a watch is passed on that may be answered here a
// moment later.
var takenOverLater = map[passReason]bool{passedLoading: true, passedUnproven: true, passedHistory: true, passedSkewBookmark: true}

// mayPassHistory reports whether the other server is asked for the events of a watch that the
// cache lacks.
func (t *Tier) mayPassHistory() bool {
	return t.passedOnElsewhere && t.historyWatches.Load() < maxHistoryWatches
}

// passOnWatch lets next answer a watch until the cache has the revision which the client has
// reached. It returns the session of the rest of the watch. That is nil if next has sent the
// whole watch, or if the client resumes the watch itself.
func (q *query) passOnWatch(w http.ResponseWriter, req *http.Request, next http.Handler, reason passReason) (rest *watchSession) {
	if reason == passedHistory {
		q.tier.historyWatches.Add(1)
		defer q.tier.historyWatches.Add(-1)
	}
	defer q.tier.passedOnWatches.PassOn(clientOf(req), q.route.name, string(reason))()
	ctx, stop := context.WithCancel(req.Context())
	defer stop()
	p := &passedWatch{ResponseWriter: w, query: q, req: req, began: time.Now(), stop: stop}
	p.mu.position, p.mu.out.Writer = q.firstPosition(), w
	var looking sync.WaitGroup
	looking.Go(func() {
		defer stop()
		defer func() { p.panicked = recover() }()
		p.look(ctx)
	})
	defer func() {
		value := recover() // a proxy panics when the body cannot be copied to its end
		stop()
		looking.Wait()
		if rest = p.mu.rest; rest == nil && p.panicked == nil && (value == nil || p.mu.closed) {
			_ = p.mu.out.Close() // a client that is gone needs no end
		}
		switch {
		case p.panicked != nil:
			panic(p.panicked) // as if the request's goroutine had looked
		case value != nil && !p.mu.closed:
			panic(value)
		}
	}()
	next.ServeHTTP(p, p.asked(ctx))
	return nil
}

// firstPosition returns the revision after which the watch's events begin. It returns 0 if
// the watch begins with the objects of an unknown revision.
func (q *query) firstPosition() int64 {
	if o := &q.options; o.SendInitialEvents != nil && *o.SendInitialEvents {
		return 0
	}
	revision, _ := strconv.ParseInt(q.options.ResourceVersion, 10, 64)
	return revision
}

// passedWatch is the answer of another server to a WATCH, on its way to the client. It knows up
// to which revision the client has everything. As soon as the cache has that revision, the
// watch of the other server ends. A session sends what follows, or the client resumes the watch
// if it asks for bookmarks by name. No event is sent twice, and none is missed.
//
// Two goroutines use it: the request's, which writes events, and look's.
type passedWatch struct {
	http.ResponseWriter
	query *query
	req   *http.Request
	began time.Time
	// stop ends the request to the other server.
	stop context.CancelFunc
	// panicked is the panic of look. It is nil without a panic. It is read once look has
	// ended.
	panicked any

	mu struct {
		sync.Mutex
		// read says that the events are in the form that the tier would send, and are read.
		read   bool
		events watchevent.Reader
		// out compresses what is sent, if the tier compresses such a watch.
		out encode.Stream
		// position is a revision up to which the client has all events. It is 0 if none is
		// known.
		position int64
		// sent says that the client has got an event. failed says that it has got an error, or
		// that an event could not be sent: what comes after that is not taken over.
		sent, failed bool
		// closed says that nothing more of the other server's answer is sent. rest then sends
		// the rest of the watch. It is nil if the client resumes the watch.
		closed bool
		rest   *watchSession
	}
}

// asked returns the request to the other server. It asks for bookmarks, which say how far
// the client is, and for events without a content coding: the tier compresses them itself, in a
// stream that it can continue.
func (p *passedWatch) asked(ctx context.Context) *http.Request {
	parameters := p.req.URL.Query()
	parameters.Set("allowWatchBookmarks", "true")
	return uncoded(ctx, p.req, parameters)
}

// uncoded returns a copy of a request with other parameters, whose answer has no coding.
func uncoded(ctx context.Context, req *http.Request, parameters url.Values) *http.Request {
	changed := req.WithContext(ctx)
	changed.Header = req.Header.Clone()
	changed.Header.Del("Accept-Encoding")
	changed.URL = new(url.URL)
	*changed.URL = *req.URL
	changed.URL.RawQuery = parameters.Encode()
	return changed
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (p *passedWatch) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (p *passedWatch) WriteHeader(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	header := p.Header()
	if contentType := header.Get("Content-Type"); status == http.StatusOK && contentType == p.query.form.MediaType() && header.Get("Content-Encoding") == "" {
		p.mu.read, p.mu.events.Form = true, watchevent.FormOf(contentType)
		p.mu.out.Encoding = p.query.encoding
		setWatchEncoding(header, p.query.encoding)
	}
	p.ResponseWriter.WriteHeader(status)
}

// errClosed ends the copying of the other server's answer.
var errClosed = errors.New("the rest of the watch is sent by the tier")

// Write implements http.ResponseWriter. Events are sent when they are whole.
func (p *passedWatch) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.mu.closed:
		return 0, errClosed
	case !p.mu.read:
		return len(b), p.mu.out.Copy(b)
	}
	var frames []byte // whose compression as one is better than that of each
	err := p.mu.events.Feed(b, func(e *watchevent.Event) {
		if p.noteLocked(e) {
			frames = append(frames, e.Frame...)
		}
	})
	if len(frames) > 0 {
		err = errors.Join(err, p.mu.out.Copy(frames))
	}
	if err != nil {
		p.mu.failed = true // the client may lack events up to position
		return 0, err
	}
	p.takeOverLocked()
	return len(b), nil
}

// noteLocked notes how far the client is with an event, and reports whether the event is to be
// sent: the client may not have asked for bookmarks. Before the first event of another type, or
// a bookmark, ADDED may be of an object with which the watch begins. These come in the order of
// their names.
func (p *passedWatch) noteLocked(e *watchevent.Event) (sent bool) {
	sent = e.Type != watchevent.Bookmark || p.query.options.AllowWatchBookmarks
	p.mu.sent = p.mu.sent || sent
	if e.Type == watchevent.Error {
		p.mu.failed = true
		return sent
	}
	if p.mu.position > 0 || e.Type != string(apiwatch.Added) {
		if revision, err := strconv.ParseInt(string(e.Revision), 10, 64); err == nil {
			p.mu.position = max(p.mu.position, revision)
		}
	}
	return sent
}

// look tries to take the watch over, again and again, for a client that is sent no event.
func (p *passedWatch) look(ctx context.Context) {
	ticker := time.NewTicker(takeOverPause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.takeOver()
		case <-ctx.Done():
			return
		}
	}
}

func (p *passedWatch) takeOver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.takeOverLocked()
}

// takeOverLocked opens a session that sends what follows, if the tier can, and ends the request
// to the other server.
func (p *passedWatch) takeOverLocked() {
	if !p.mu.read || p.mu.failed || p.mu.closed || p.mu.position == 0 {
		return
	}
	t, gvr := p.query.tier, p.query.route.cfg.Resource
	if route := t.route(gvr); route == nil || route.cfg.Objects.Progress().Revision() < p.mu.position {
		return
	}
	req := p.resumed()
	q, reason := t.parse(req)
	if reason != "" {
		return
	}
	if p.mu.sent {
		q.firstForm = nil
	}
	q.encoding = p.mu.out.Encoding
	if q.answerCounted(begunResponse{p.ResponseWriter, http.Header{}}, req) != "" || q.session == nil {
		return
	}
	if q.session.err != nil {
		q.session.close()
		return
	}
	if p.mu.closed = true; q.bookmarks.isZero() {
		p.mu.rest, q.session.first = q.session, &p.mu.out
		t.metrics.takenOver.Inc()
	} else {
		q.session.close() // the answer's headers would have to be ours: the client resumes
	}
	p.stop()
}

// resumed returns the request by which the client would continue the watch.
func (p *passedWatch) resumed() *http.Request {
	parameters := p.req.URL.Query()
	parameters.Set("resourceVersion", strconv.FormatInt(p.mu.position, 10))
	parameters.Del("resourceVersionMatch")
	parameters.Del("sendInitialEvents")
	if t := p.query.options.TimeoutSeconds; t != nil && *t > 0 {
		remaining := time.Duration(*t)*time.Second - time.Since(p.began)
		parameters.Set("timeoutSeconds", strconv.Itoa(max(1, int(math.Ceil(remaining.Seconds())))))
	}
	return uncoded(p.req.Context(), p.req, parameters)
}

// begunResponse is a response whose headers are sent.
type begunResponse struct {
	http.ResponseWriter
	header http.Header
}

// Header implements http.ResponseWriter.
func (r begunResponse) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (begunResponse) WriteHeader(int) {}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (r begunResponse) Unwrap() http.ResponseWriter { return r.ResponseWriter }
