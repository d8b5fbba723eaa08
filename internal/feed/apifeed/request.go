package apifeed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"
)

const (
	// answerTimeout is how long a server may take to begin its answer. A balancer that
	// answers PINGs by itself keeps a connection whose server is gone.
	answerTimeout = 30 * time.Second
	// bodySilence is the time in which nothing comes of an answer that is read as a whole.
	bodySilence = 30 * time.Second
	// maxPageBytes bounds an answer that is read as a whole. A page of objects of the
	// largest size that etcd takes stays below it.
	maxPageBytes = 1 << 30
	// maxErrorBytes bounds what is read of an error.
	maxErrorBytes = 64 << 10
)

var (
	// errNoAnswer says that a request got no answer, and errSilent that an answer stopped.
	errNoAnswer = fmt.Errorf("the API server has not begun its answer within %v", answerTimeout)
	errSilent   = errors.New("the API server has sent nothing for too long")
	// errStale says that a replica has answered with a state that it could not prove.
	errStale = errors.New("the answer is stale: it proves nothing")
)

const (
	// compressWatchHeader asks a Millrace for a compressed watch, also one that does not begin
	// with all objects. Other servers compress watch-lists alone. Go's client accepts gzip by
	// itself.
	compressWatchHeader = "X-Millrace-Compress-Watch"
	// staleHeader marks an answer of a replica with bounded staleness.
	staleHeader = "X-Millrace-Stale"
)

// request is a GET of one server.
type request struct {
	client     *http.Client
	collection string
	parameters url.Values
	accept     string
	// silence is how long the body may be silent. Zero means bodySilence.
	silence time.Duration
	// plain asks for an answer that is not compressed.
	plain bool
	// last makes the connection serve no further request. Requests that are under way on it
	// go on. An HTTP/2 connection is otherwise used for as long as it lives.
	last bool
	// conn is the connection that was used. It is nil before the request was sent.
	conn net.Conn
}

// send sends the request and returns the answer, whose body the caller closes. An answer that
// is no success is an error. The end of the context also ends the reading of the body.
func (r *request) send(ctx context.Context) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	silence := time.AfterFunc(answerTimeout, func() { cancel(errNoAnswer) })
	resp, err := r.do(ctx)
	if !silence.Stop() && err == nil {
		_ = resp.Body.Close()
		err = errNoAnswer
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	limit := r.silence
	if limit == 0 {
		limit = bodySilence
	}
	body := &watchedBody{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, limit: limit}
	body.timer = time.AfterFunc(limit, func() { cancel(errSilent) })
	body.timer.Stop()
	resp.Body = body
	if err := r.check(resp); err != nil {
		_ = body.Close()
		return nil, err
	}
	return resp, nil
}

func (r *request) do(ctx context.Context) (*http.Response, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { r.conn = got.Conn }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.collection+"?"+r.parameters.Encode(), nil)
	if err != nil {
		return nil, err
	}
	req.Close = r.last
	req.Header.Set("Accept", r.accept)
	if r.plain {
		req.Header.Set("Accept-Encoding", "identity")
	} else {
		req.Header.Set(compressWatchHeader, "1")
	}
	return r.client.Do(req)
}

// check returns an error if the answer is no success, or is stale.
func (r *request) check(resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
		return statusError(resp.StatusCode, body)
	}
	if age := resp.Header.Get(staleHeader); age != "" {
		return fmt.Errorf("%w, but that it is at most %s old", errStale, age)
	}
	return nil
}

// watchedBody is the body of an answer. It ends the request if a Read takes longer than limit.
// One goroutine reads it.
type watchedBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.limit) // a slow reader is no silence
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if cause := context.Cause(b.ctx); err != nil && cause != nil {
		err = cause
	}
	return n, err
}

// Close implements io.Closer.
func (b *watchedBody) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}

// request returns a request to the server that is followed.
func (f *Feed) request(collection string, parameters url.Values, accept string) *request {
	return &request{client: f.cfg.Client, collection: collection, parameters: parameters, accept: accept, plain: f.cfg.Uncompressed}
}

// get reads an answer to a GET as a whole.
func (f *Feed) get(ctx context.Context, collection string, parameters url.Values, accept string) ([]byte, error) {
	resp, err := f.request(collection, parameters, accept).send(ctx)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(io.LimitReader(resp.Body, maxPageBytes))
}
