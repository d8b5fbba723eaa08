package watch

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/bench/testbed"
)

const (
	// concurrentOpens is how many connections are opened at the same time.
	concurrentOpens = 32
	// readSize is the size of a watcher's buffer. There are thousands of watchers; an
	// event of 2 KB fits.
	readSize = 8 << 10
	// stalledWindow is how many bytes a server may send to a watcher that does not read.
	stalledWindow = 16 << 10
	// arrivalPoll is the time between two looks at the number of arrived events.
	arrivalPoll = 5 * time.Millisecond
)

// watcherGroup is the watchers of one workload. Each has a goroutine, which counts
// events and records spans: the times from the stamp in an event to its arrival.
//
// Watchers share only two counters. Spans stay with each watcher until close, because
// thousands of goroutines must not contend for one slice.
type watcherGroup struct {
	target *testbed.Target
	form   streamForm
	ctx    context.Context
	fail   context.CancelCauseFunc
	group  sync.WaitGroup // one for each watcher

	arrivedEvents atomic.Int64 // at all watchers
	measuredSince atomic.Int64 // events with this stamp or a later one are measured; 0: none

	connections []*connection
	watchers    []*watcher // each belongs to its goroutine until close has returned
}

// watcher is one watch and what it has measured.
type watcher struct {
	group *watcherGroup
	spans []time.Duration
	bytes atomic.Int64 // received since group.measuredSince was set, before decompression
}

// newWatcherGroup returns a group without watchers. The caller must call close.
func newWatcherGroup(ctx context.Context, t *testbed.Target, form streamForm) *watcherGroup {
	g := &watcherGroup{target: t, form: form}
	g.ctx, g.fail = context.WithCancelCause(ctx)
	return g
}

// open starts a watch of each URI. Watch n is on connection n modulo conns.
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
	l, err := dialConnection(g.target, 0, 0)
	if err != nil {
		return err
	}
	g.connections[i] = l
	for n := i; n < len(uris); n += len(g.connections) {
		resp, err := g.watch(l, uris[n])
		if err != nil {
			return err
		}
		w := &watcher{group: g}
		watchers[n] = w
		g.group.Go(func() {
			if err := w.read(resp); err != nil {
				g.fail(fmt.Errorf("watch %s: %w", uris[n], err))
			}
		})
	}
	return nil
}

// compressWatchHeader asks millrace for a compressed watch, which it otherwise sends only
// to watch-lists.
const compressWatchHeader = "X-Millrace-Compress-Watch"

// watch sends a request and returns when the header of the answer has arrived.
func (g *watcherGroup) watch(l *connection, uri string) (*http.Response, error) {
	req, err := g.target.NewRequest(g.ctx, testbed.Request{URI: uri, Accept: cmp.Or(g.form.accept, testbed.AcceptJSON), Encoding: g.form.encoding})
	if err != nil {
		return nil, err
	}
	if g.form.encoding != "" {
		req.Header.Set(compressWatchHeader, "1")
	}
	resp, err := testbed.Send(l.rt, req)
	return resp, err
}

// openStalled opens a watch that reads nothing, on a connection of its own.
func (g *watcherGroup) openStalled(uri string) error {
	l, err := dialConnection(g.target, stalledWindow, stalledWindow)
	if err != nil {
		return err
	}
	g.connections = append(g.connections, l)
	_, err = g.watch(l, uri) // close ends the body
	return err
}

// close ends all watches. After it totals may be called. It may be called again.
func (g *watcherGroup) close() {
	g.fail(nil)
	for _, l := range g.connections {
		if l != nil {
			l.close()
		}
	}
	g.group.Wait()
}

// read receives events until the group is closed. If the server ends the watch, that is
// an error.
func (w *watcher) read(resp *http.Response) error {
	defer resp.Body.Close()
	body := io.Reader(&countingReader{from: resp.Body, watcher: w})
	var err error
	if resp.Header.Get("Content-Encoding") == testbed.EncodingGzip {
		body, err = gzip.NewReader(body)
	}
	scanner := w.group.form.stampScanner()
	buf := make([]byte, readSize)
	for err == nil {
		var n int
		n, err = body.Read(buf)
		now := time.Now().UnixNano()
		scanner.Feed(buf[:n], func(e testbed.Event) { w.arrive(e, now) })
	}
	if w.group.ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("the server ended it: %w", err)
}

// arrive counts an event that has arrived at time now, in nanoseconds since 1970.
func (w *watcher) arrive(e testbed.Event, now int64) {
	if since := w.group.measuredSince.Load(); since > 0 {
		if sent := testbed.ParseStamp(e.Value); sent >= since {
			w.spans = append(w.spans, time.Duration(now-sent))
		}
	}
	w.group.arrivedEvents.Add(1)
}

type countingReader struct {
	from    io.Reader
	watcher *watcher
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.watcher.group.measuredSince.Load() > 0 {
		r.watcher.bytes.Add(int64(n))
	}
	return n, err
}

// await returns when so many events have arrived since the group was made, or with an
// error after a time.
func (g *watcherGroup) await(events int64, within time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(g.ctx, within, errArrivalTimeout)
	defer cancel()
	for g.arrivedEvents.Load() < events {
		if err := testbed.Sleep(ctx, arrivalPoll); err != nil {
			if errors.Is(err, errArrivalTimeout) {
				err = fmt.Errorf("%d of %d events arrived within %s of the last write", g.arrivedEvents.Load(), events, within)
			}
			return err
		}
	}
	return nil
}

var errArrivalTimeout = errors.New("late")

// totals returns the spans and bytes of all watchers. It must be called after close.
func (g *watcherGroup) totals() (spans []time.Duration, bytes int64) {
	for _, w := range g.watchers {
		spans = append(spans, w.spans...)
		bytes += w.bytes.Load()
	}
	return spans, bytes
}
