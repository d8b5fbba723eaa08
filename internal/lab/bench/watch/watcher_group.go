package watch

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	// concurrentOpens is the number of connections that are opened at the same time.
	concurrentOpens = 32
	// readBytes is the size of a watcher's buffer. It is small, because there are thousands of
	// watchers. An event of 2 KB fits.
	readBytes = 8 << 10
	// stalledWindow is the number of bytes that a server may send to a watcher that does not read.
	stalledWindow = 16 << 10
)

// watcherGroup has the watchers of one workload. Each has a goroutine, which counts events and
// records spans: the times from the stamp in an event to its arrival.
//
// Watchers share only two counters. Spans stay with each watcher until close, because thousands of
// goroutines must not contend for one slice.
type watcherGroup struct {
	target *testbed.Target
	form   streamForm
	ctx    context.Context
	fail   context.CancelCauseFunc
	group  sync.WaitGroup // one for each watcher

	arrivedEvents atomic.Int64 // at all watchers
	measuredSince atomic.Int64 // the first stamp whose events are measured; 0: no events are measured

	connections []*connection
	watchers    []*watcher // each belongs to its goroutine until close has returned
}

// newWatcherGroup returns a group without watchers. The caller must call close.
func newWatcherGroup(ctx context.Context, t *testbed.Target, form streamForm) *watcherGroup {
	g := &watcherGroup{target: t, form: form}
	g.ctx, g.fail = context.WithCancelCause(ctx)
	return g
}

// open opens conns connections and a watch of each URI, and returns when all watches are open.
// Watch n is on connection n modulo conns.
func (g *watcherGroup) open(uris []string, conns int) error {
	turns := make(chan int)
	g.connections = make([]*connection, conns)
	first := len(g.watchers)
	g.watchers = append(g.watchers, make([]*watcher, len(uris))...)
	var group sync.WaitGroup
	for range min(concurrentOpens, conns) {
		group.Go(func() {
			for i := range turns {
				if err := g.connect(i, uris, g.watchers[first:]); err != nil {
					g.fail(err)
				}
			}
		})
	}
	for i := range conns {
		if testbed.OfferTurn(g.ctx, turns, i) != nil {
			break
		}
	}
	close(turns)
	group.Wait()
	return context.Cause(g.ctx)
}

// connect opens connection i and its watches, one after another. watchers has a place
// for the watch of each URI.
func (g *watcherGroup) connect(i int, uris []string, watchers []*watcher) error {
	c, err := newConnection(g.target, 0, 0)
	if err != nil {
		return err
	}
	g.connections[i] = c
	for n := i; n < len(uris); n += len(g.connections) {
		resp, err := g.watch(c, uris[n])
		if err != nil {
			return err
		}
		w := &watcher{group: g, connection: c, uri: uris[n]}
		watchers[n] = w
		g.group.Go(func() {
			if err := w.follow(resp); err != nil {
				g.fail(fmt.Errorf("watch %s: %w", uris[n], err))
			}
		})
	}
	return nil
}

// compressWatchHeader asks millrace for a compressed watch. Without it millrace compresses only
// watch-lists.
const compressWatchHeader = "X-Millrace-Compress-Watch"

// watch sends a request, and returns when the header of the answer has arrived. It sends the
// request again after each 429 with a Retry-After.
func (g *watcherGroup) watch(c *connection, uri string) (resp *http.Response, err error) {
	req, err := g.target.NewRequest(g.ctx, testbed.Request{
		URI: uri, Accept: cmp.Or(g.form.accept, testbed.AcceptJSON), Encoding: g.form.encoding,
	})
	if err != nil {
		return nil, err
	}
	if g.form.encoding != "" {
		req.Header.Set(compressWatchHeader, "1")
	}
	_, err = testbed.RetryRefused(g.ctx, func() (err error) {
		resp, err = testbed.Send(c.rt, req)
		return err
	})
	return resp, err
}

// openStalled opens a watch of which nothing is read, on a connection of its own.
func (g *watcherGroup) openStalled(uri string) error {
	c, err := newConnection(g.target, stalledWindow, stalledWindow)
	if err != nil {
		return err
	}
	g.connections = append(g.connections, c)
	_, err = g.watch(c, uri) // close ends the body
	return err
}

// close ends all watches, and returns when the watchers have ended. It may be called again.
func (g *watcherGroup) close() {
	g.fail(nil)
	for _, c := range g.connections {
		if c != nil {
			c.close()
		}
	}
	g.group.Wait()
}

// await waits until a number of events have arrived since the group was made. It returns an error
// after timeout.
func (g *watcherGroup) await(events int64, timeout time.Duration) error {
	return testbed.AwaitCount(g.ctx, &g.arrivedEvents, events, timeout, "events arrived")
}

// totals returns the spans of all watchers, and the sums of their bytes and resumptions. It must be
// called after close.
func (g *watcherGroup) totals() (spans []time.Duration, bytes int64, resumed int) {
	for _, w := range g.watchers {
		spans = append(spans, w.spans...)
		bytes += w.bytes.Load()
		resumed += w.resumed
	}
	return spans, bytes, resumed
}
