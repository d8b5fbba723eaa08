package bench

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// openers is how many connections are made at the same time.
	openers = 32
	// watchRead is a watcher's buffer: there are thousands of them, and an
	// event of 2 KB fits.
	watchRead = 8 << 10
	// stalledWindow is what a server may send to a watcher that does not read.
	stalledWindow = 16 << 10
	// arrivalPoll is how often arrivals are looked at.
	arrivalPoll = 5 * time.Millisecond
)

// crowd is the watchers of one workload. They count events and take the spans
// from the stamps in them to now.
type crowd struct {
	target *target
	accept string // of encodings; empty: none
	ctx    context.Context
	fail   context.CancelCauseFunc
	group  sync.WaitGroup

	arrived atomic.Int64 // all events
	since   atomic.Int64 // stamps from here on are measured; 0: none are

	links    []*link
	watchers []*watcher // each is its goroutine's until the group has ended
}

// watcher is one watch's share.
type watcher struct {
	crowd *crowd
	spans []time.Duration
	bytes atomic.Int64 // on the wire, while there is a since
}

// newCrowd makes an empty one. The caller must call close.
func newCrowd(ctx context.Context, t *target, encoding string) *crowd {
	c := &crowd{target: t, accept: encoding}
	c.ctx, c.fail = context.WithCancelCause(ctx)
	return c
}

// link is one connection, which close cuts: a transport alone leaves one open
// whose streams have not all ended.
type link struct {
	rt  http.RoundTripper
	raw net.Conn
}

// dialLink returns a connection that is made with its first request. window bounds
// what a server may send ahead of the reader of a stream, socket what the
// kernel takes for it; 0 means the defaults.
func dialLink(t *target, window, socket int) (*link, error) {
	transport, rt, err := t.newTransport(window)
	if err != nil {
		return nil, err
	}
	l := &link{rt: rt}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if tcp, ok := raw.(*net.TCPConn); ok && socket > 0 {
			err = errors.Join(err, tcp.SetReadBuffer(socket))
		}
		l.raw = raw
		return raw, err
	}
	return l, nil
}

func (l *link) close() {
	if l.raw != nil {
		l.raw.Close()
	}
}

// open starts a watch of each URI, spread over connections.
func (c *crowd) open(uris []string, conns int) error {
	turns := make(chan int)
	c.links = make([]*link, conns)
	first := len(c.watchers)
	c.watchers = append(c.watchers, make([]*watcher, len(uris))...)
	var group sync.WaitGroup
	for range min(openers, conns) {
		group.Go(func() {
			for i := range turns {
				if err := c.connect(i, uris, c.watchers[first:]); err != nil {
					c.fail(err)
				}
			}
		})
	}
	for i := range conns {
		if give(c.ctx, turns, i) != nil {
			break
		}
	}
	close(turns)
	group.Wait()
	return context.Cause(c.ctx)
}

// connect opens connection i and its watches, one after another.
func (c *crowd) connect(i int, uris []string, watchers []*watcher) error {
	l, err := dialLink(c.target, 0, 0)
	if err != nil {
		return err
	}
	c.links[i] = l
	for n := i; n < len(uris); n += len(c.links) {
		resp, err := c.watch(l, uris[n])
		if err != nil {
			return err
		}
		w := &watcher{crowd: c}
		watchers[n] = w
		c.group.Go(func() {
			if err := w.read(resp); err != nil {
				c.fail(fmt.Errorf("watch %s: %w", uris[n], err))
			}
		})
	}
	return nil
}

// watch returns when the server has begun to answer.
func (c *crowd) watch(l *link, uri string) (*http.Response, error) {
	req, err := c.target.newRequest(c.ctx, request{uri: uri, accept: acceptJSON, encoding: c.accept})
	if err != nil {
		return nil, err
	}
	resp, err := send(l.rt, req)
	return resp, err
}

// stall adds a watcher with a connection of its own that reads nothing.
func (c *crowd) stall(uri string) error {
	l, err := dialLink(c.target, stalledWindow, stalledWindow)
	if err != nil {
		return err
	}
	c.links = append(c.links, l)
	_, err = c.watch(l, uri) // the body stays open until close
	return err
}

// close ends all watches; after it the watchers' shares can be read.
func (c *crowd) close() {
	c.fail(nil)
	for _, l := range c.links {
		if l != nil {
			l.close()
		}
	}
	c.group.Wait()
}

// read ends with the crowd. That the server ends a watch is an error.
func (w *watcher) read(resp *http.Response) error {
	defer resp.Body.Close()
	body := io.Reader(&countingReader{from: resp.Body, watcher: w})
	var err error
	if resp.Header.Get("Content-Encoding") == encodingGzip {
		body, err = gzip.NewReader(body)
	}
	scanner := eventScanner{mark: []byte(stampMark), tail: stampDigits}
	buf := make([]byte, watchRead)
	for err == nil {
		var n int
		n, err = body.Read(buf)
		now := time.Now().UnixNano()
		scanner.feed(buf[:n], func(e event) { w.arrive(e, now) })
	}
	if w.crowd.ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("the server ended it: %w", err)
}

func (w *watcher) arrive(e event, now int64) {
	if since := w.crowd.since.Load(); since > 0 {
		if sent := parseStamp(e.value); sent >= since {
			w.spans = append(w.spans, time.Duration(now-sent))
		}
	}
	w.crowd.arrived.Add(1)
}

type countingReader struct {
	from    io.Reader
	watcher *watcher
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.watcher.crowd.since.Load() > 0 {
		r.watcher.bytes.Add(int64(n))
	}
	return n, err
}

// await returns when so many events have arrived in all, or says how many did
// within a time.
func (c *crowd) await(events int64, within time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(c.ctx, within, errLate)
	defer cancel()
	for c.arrived.Load() < events {
		if err := sleep(ctx, arrivalPoll); err != nil {
			if errors.Is(err, errLate) {
				err = fmt.Errorf("%d of %d events arrived within %s of the last write", c.arrived.Load(), events, within)
			}
			return err
		}
	}
	return nil
}

var errLate = errors.New("late")

// spans and bytes of all watchers. Call it after close.
func (c *crowd) sum() (spans []time.Duration, bytes int64) {
	for _, w := range c.watchers {
		spans = append(spans, w.spans...)
		bytes += w.bytes.Load()
	}
	return spans, bytes
}
