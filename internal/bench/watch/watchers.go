package watch

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

	"github.com/millrace/millrace/internal/bench/testbed"
)

const (
	// openers is how many connections are made at the same time.
	openers = 32
	// readSize is a watcher's buffer: there are thousands of them, and an
	// event of 2 KB fits.
	readSize = 8 << 10
	// stalledWindow is what a server may send to a watcher that does not read.
	stalledWindow = 16 << 10
	// arrivalPoll is how often arrivals are looked at.
	arrivalPoll = 5 * time.Millisecond
)

// watcherGroup is the watchers of one workload. They count events and take the spans
// from the stamps in them to now.
type watcherGroup struct {
	target *testbed.Target
	accept string // of encodings; empty: none
	ctx    context.Context
	fail   context.CancelCauseFunc
	group  sync.WaitGroup

	arrivedEvents atomic.Int64 // all events
	measuredSince atomic.Int64 // stamps from here on are measured; 0: none are

	connections []*connection
	watchers    []*watcher // each is its goroutine's until the group has ended
}

// watcher is one watch's share.
type watcher struct {
	crowd *watcherGroup
	spans []time.Duration
	bytes atomic.Int64 // on the wire, while there is a since
}

// newWatcherGroup makes an empty one. The caller must call close.
func newWatcherGroup(ctx context.Context, t *testbed.Target, encoding string) *watcherGroup {
	c := &watcherGroup{target: t, accept: encoding}
	c.ctx, c.fail = context.WithCancelCause(ctx)
	return c
}

// connection is one connection, which close cuts: a transport alone leaves one open
// whose streams have not all ended.
type connection struct {
	rt  http.RoundTripper
	raw net.Conn
}

// dialConnection returns a connection that is made with its first request. window bounds
// what a server may send ahead of the reader of a stream, socket what the
// kernel takes for it; 0 means the defaults.
func dialConnection(t *testbed.Target, window, socket int) (*connection, error) {
	transport, rt, err := t.NewTransport(window)
	if err != nil {
		return nil, err
	}
	l := &connection{rt: rt}
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

func (l *connection) close() {
	if l.raw != nil {
		l.raw.Close()
	}
}

// open starts a watch of each URI, spread over connections.
func (c *watcherGroup) open(uris []string, conns int) error {
	turns := make(chan int)
	c.connections = make([]*connection, conns)
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
		if testbed.OfferTurn(c.ctx, turns, i) != nil {
			break
		}
	}
	close(turns)
	group.Wait()
	return context.Cause(c.ctx)
}

// connect opens connection i and its watches, one after another.
func (c *watcherGroup) connect(i int, uris []string, watchers []*watcher) error {
	l, err := dialConnection(c.target, 0, 0)
	if err != nil {
		return err
	}
	c.connections[i] = l
	for n := i; n < len(uris); n += len(c.connections) {
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
func (c *watcherGroup) watch(l *connection, uri string) (*http.Response, error) {
	req, err := c.target.NewRequest(c.ctx, testbed.Request{URI: uri, Accept: testbed.AcceptJSON, Encoding: c.accept})
	if err != nil {
		return nil, err
	}
	resp, err := testbed.Send(l.rt, req)
	return resp, err
}

// stall adds a watcher with a connection of its own that reads nothing.
func (c *watcherGroup) stall(uri string) error {
	l, err := dialConnection(c.target, stalledWindow, stalledWindow)
	if err != nil {
		return err
	}
	c.connections = append(c.connections, l)
	_, err = c.watch(l, uri) // the body stays open until close
	return err
}

// close ends all watches; after it the watchers' shares can be read.
func (c *watcherGroup) close() {
	c.fail(nil)
	for _, l := range c.connections {
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
	if resp.Header.Get("Content-Encoding") == testbed.EncodingGzip {
		body, err = gzip.NewReader(body)
	}
	scanner := eventScanner{mark: []byte(testbed.StampMark), tail: testbed.StampDigits}
	buf := make([]byte, readSize)
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
	if since := w.crowd.measuredSince.Load(); since > 0 {
		if sent := testbed.ParseStamp(e.value); sent >= since {
			w.spans = append(w.spans, time.Duration(now-sent))
		}
	}
	w.crowd.arrivedEvents.Add(1)
}

type countingReader struct {
	from    io.Reader
	watcher *watcher
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.watcher.crowd.measuredSince.Load() > 0 {
		r.watcher.bytes.Add(int64(n))
	}
	return n, err
}

// await returns when so many events have arrived in all, or says how many did
// within a time.
func (c *watcherGroup) await(events int64, within time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(c.ctx, within, errLate)
	defer cancel()
	for c.arrivedEvents.Load() < events {
		if err := testbed.Sleep(ctx, arrivalPoll); err != nil {
			if errors.Is(err, errLate) {
				err = fmt.Errorf("%d of %d events arrived within %s of the last write", c.arrivedEvents.Load(), events, within)
			}
			return err
		}
	}
	return nil
}

var errLate = errors.New("late")

// spans and bytes of all watchers. Call it after close.
func (c *watcherGroup) sum() (spans []time.Duration, bytes int64) {
	for _, w := range c.watchers {
		spans = append(spans, w.spans...)
		bytes += w.bytes.Load()
	}
	return spans, bytes
}
