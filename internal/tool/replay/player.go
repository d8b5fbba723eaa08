package replay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/price"
	"github.com/millrace/millrace/internal/tool/useragent"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

// requestTimeout bounds requests that are no watch.
const requestTimeout = 5 * time.Minute

// player sends a plan to a server.
type player struct {
	plan    *plan
	server  *server
	options *Options
	writer  *writer // nil unless writes are sent
	states  []state
	// written is closed when the last write so far of an object was answered, by path.
	written map[string]<-chan struct{}
	outcome *outcome
	began   time.Time
	// free has a token for each request that may be in flight, besides watches.
	free chan struct{}
}

// state is what an instance knows of the server, by collection.
type state map[uint32]*collection

// collection is what an instance knows of the objects that it lists and watches.
type collection struct {
	// last is closed when the last request of the collection so far needs nothing more of
	// it: a LIST when it was answered, a watch when it was sent.
	last <-chan struct{}
	// token is that of the next page. It belongs to the request whose turn it is.
	token string
	// revision is that of the last LIST or event, 0 if there was none.
	revision atomic.Uint64
}

// turn is the place of a request among those of its collection: a page needs the token of
// the page before, and a watch the resource version of the LIST before. Writes of an object
// have turns, too, so that none is of a version before another's.
type turn struct {
	collection *collection
	before     <-chan struct{}
	end        func()
}

func newPlayer(p *plan, s *server, o *Options) *player {
	return &player{plan: p, server: s, options: o, states: make([]state, len(p.instances)), written: map[string]<-chan struct{}{}, outcome: newOutcome(p), free: make(chan struct{}, o.MaxInFlight)}
}

// errInterrupted ends a replay that was stopped, also when its saved report is printed.
var errInterrupted = errors.New("interrupted")

// play sends all requests, each when its time has come, and waits for the answers. Watches
// are open for as long as they were in the log.
func (p *player) play(ctx context.Context, progress func(sent int)) error {
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.began = time.Now()
	end := p.scale(p.plan.length)
	if p.options.Duration > 0 {
		end = min(end, p.options.Duration)
	}
sending:
	for i := range p.plan.requests {
		r := &p.plan.requests[i]
		due := p.scale(r.at)
		if due > end {
			break
		}
		if !sleepUntil(ctx, p.began.Add(due)) {
			break
		}
		isWatch := p.plan.targets[r.target].shape.Verb == "watch"
		if !isWatch {
			select {
			case p.free <- struct{}{}:
			case <-ctx.Done():
				break sending
			}
		}
		p.outcome.late(time.Since(p.began) - due)
		turn := p.turn(r)
		group.Go(func() {
			defer turn.end()
			turn.wait(ctx)
			if isWatch {
				p.watch(ctx, r, turn, end)
				return
			}
			defer func() { <-p.free }()
			if t := &p.plan.targets[r.target]; t.object != nil {
				p.outcome.add(r, p.writer.send(ctx, t.shape.Verb, t.object))
				return
			}
			p.read(ctx, r, turn.collection)
		})
		progress(i + 1)
	}
	sleepUntil(ctx, p.began.Add(end))
	cancelled := ctx.Err() != nil
	group.Wait()
	p.outcome.elapsed = time.Since(p.began)
	if cancelled {
		return errInterrupted
	}
	return nil
}

// scale is a time of the log, in microseconds, as a time of the replay.
func (p *player) scale(micros int64) time.Duration {
	return time.Duration(float64(micros) * 1000 / p.options.Speed)
}

// sleepUntil returns false if ctx ends before.
func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// turn returns the next turn of a request's collection or object. It is called for one request after
// the other.
func (p *player) turn(r *request) turn {
	t := &p.plan.targets[r.target]
	done := make(chan struct{})
	end := sync.OnceFunc(func() { close(done) })
	switch {
	case t.object != nil && t.object.name != "":
		path := t.object.path()
		now := turn{before: p.written[path], end: end}
		p.written[path] = done
		return now
	case t.shape.Verb != "list" && t.shape.Verb != "watch":
		return turn{end: func() {}}
	}
	s := p.states[r.instance]
	if s == nil {
		s = state{}
		p.states[r.instance] = s
	}
	c := s[t.collection]
	if c == nil {
		c = &collection{}
		s[t.collection] = c
	}
	now := turn{collection: c, before: c.last, end: end}
	c.last = done
	return now
}

func (t *turn) wait(ctx context.Context) {
	if t.before == nil {
		return // the first one
	}
	select {
	case <-t.before:
	case <-ctx.Done():
	}
}

// read sends a GET or a LIST, and reads the answer. c is nil for a GET.
func (p *player) read(ctx context.Context, r *request, c *collection) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	began := time.Now()
	req, ok := p.request(ctx, r, c)
	if !ok {
		p.outcome.add(r, result{noPage: true})
		return
	}
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := p.transport(r).RoundTrip(req)
	if err != nil {
		p.outcome.add(r, result{err: err, took: time.Since(began)})
		return
	}
	defer resp.Body.Close()
	counted := &countingReader{reader: resp.Body}
	var kept edges
	err = readBody(&kept, counted, resp.Header.Get("Content-Encoding"))
	if c != nil && resp.StatusCode == http.StatusOK {
		revision, token := watchevent.ListPosition(watchevent.FormOf(resp.Header.Get("Content-Type")), kept.head, kept.tail)
		c.token = token
		if n, err := strconv.ParseUint(revision, 10, 64); err == nil {
			c.revision.Store(n)
			p.server.saw(n)
		}
	}
	p.outcome.add(r, result{status: resp.StatusCode, bytes: counted.count, err: err, took: time.Since(began)})
}

// readBody reads an answer to its end, and decompresses it as a client does.
func readBody(kept *edges, body io.Reader, encoding string) error {
	if encoding == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unpacked
	}
	_, err := io.Copy(kept, body)
	return err
}

// watch opens a watch, and reads it for as long as it lasted. end is when the replay ends.
func (p *player) watch(ctx context.Context, r *request, turn turn, end time.Duration) {
	c := turn.collection
	req, _ := p.request(ctx, r, c)
	turn.end()
	until := p.began.Add(end)
	if r.lasts != openEnded {
		if own := time.Now().Add(p.scale(r.lasts)); own.Before(until) {
			until = own
		}
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	began := time.Now()
	resp, err := p.transport(r).RoundTrip(req.WithContext(ctx))
	if err != nil {
		// The end of a short watch may come before its answer does.
		p.outcome.add(r, result{err: unlessEnded(ctx, err), took: time.Since(began)})
		return
	}
	defer resp.Body.Close()
	opened := time.Since(began)
	counted := &countingReader{reader: resp.Body}
	seen := events{reader: watchevent.Reader{Form: watchevent.FormOf(resp.Header.Get("Content-Type"))}, saw: func(revision uint64) {
		c.revision.Store(revision)
		p.server.saw(revision)
	}}
	if resp.StatusCode == http.StatusOK {
		_, err = io.Copy(&seen, counted)
	}
	p.outcome.add(r, result{
		status: resp.StatusCode, bytes: counted.count, events: seen.changes,
		err: unlessEnded(ctx, err), took: opened, cutShort: ctx.Err() == nil && r.lasts == openEnded,
	})
}

func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// request makes the request of a plan. c is nil unless it reads a collection. ok is false if
// it asks for a page of a list that has no more.
func (p *player) request(ctx context.Context, r *request, c *collection) (req *http.Request, ok bool) {
	t, i := &p.plan.targets[r.target], &p.plan.instances[r.instance]
	query, ok := p.query(t, c)
	if !ok {
		return nil, false
	}
	address := p.server.base + t.path
	if query != "" {
		address += "?" + query
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		panic(err) // plans have only URIs that can be parsed
	}
	req.Header.Set("User-Agent", i.userAgent)
	req.Header.Set("Accept", accept(i.client.UserAgent, &t.shape, p.options.Forms))
	if p.options.Impersonate {
		i.impersonate(req.Header)
	}
	return req, true
}

// query completes the query of a target with what the instance knows.
func (p *player) query(t *target, c *collection) (query string, ok bool) {
	name, value := "resourceVersion", ""
	switch t.revision {
	case serverreport.RevisionContinue:
		if c == nil || c.token == "" {
			return "", false
		}
		name, value = "continue", url.QueryEscape(c.token)
	case serverreport.RevisionAny:
		value = "0"
	case serverreport.RevisionAtLeast, serverreport.RevisionExact:
		revision := p.server.newest.Load()
		if c != nil && c.revision.Load() > 0 {
			revision = c.revision.Load()
		}
		value = strconv.FormatUint(revision, 10)
	default:
		return t.query, true
	}
	if t.query != "" {
		return t.query + "&" + name + "=" + value, true
	}
	return name + "=" + value, true
}

func accept(name string, s *serverreport.Shape, forms map[string]string) string {
	if s.Version == "" {
		return "application/json"
	}
	switch form, _ := useragent.Encoding(name, s.Verb, s.Resource, forms); form {
	case price.Protobuf:
		return "application/vnd.kubernetes.protobuf,application/json"
	case price.Table:
		return "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	}
	return "application/json"
}

// impersonate names the instance's user, and the pod that tells instances of a user apart.
// The name of a node tells nodes apart.
func (i *instance) impersonate(h http.Header) {
	if i.user == "" {
		return
	}
	h.Set("Impersonate-User", i.user)
	for _, group := range i.groups {
		h.Add("Impersonate-Group", group)
	}
	if i.client.User != auditlog.NodeUser && i.identity != "" {
		h.Set("Impersonate-Extra-Authentication.kubernetes.io%2fpod-name", i.identity)
	}
}

func (p *player) transport(r *request) http.RoundTripper {
	return p.server.transports[int(r.instance)%len(p.server.transports)]
}

type countingReader struct {
	reader io.Reader
	count  int64
}

// Read implements io.Reader.
func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.reader.Read(b)
	r.count += int64(n)
	return n, err
}
