package replay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/millrace/millrace/internal/wire/watchevent"
)

// requestTimeout bounds a request that is not a watch.
const requestTimeout = 5 * time.Minute

// player sends a plan to a server.
type player struct {
	plan    *plan
	server  *server
	options *Options
	writer  *writer // nil unless writes are sent
	states  []state
	// written has channels by the path of an object. A channel is closed when the newest write of
	// the object was answered.
	written map[string]<-chan struct{}
	totals  *totals
	began   time.Time
	// semaphore bounds the requests in flight, except for watches.
	semaphore chan struct{}
}

func newPlayer(p *plan, s *server, o *Options) *player {
	return &player{
		plan: p, server: s, options: o, states: make([]state, len(p.instances)), written: map[string]<-chan struct{}{},
		totals: newTotals(p), semaphore: make(chan struct{}, o.MaxInFlight),
	}
}

// errInterrupted is the error of a replay that was stopped. It is also the error of a command that
// prints the saved report of such a replay.
var errInterrupted = errors.New("interrupted")

// play sends the requests within Options.Duration, or all, each when its time has come, and waits
// for the answers. Watches are open for as long as in the log, divided by the speed. play calls
// progress with the number of requests sent so far. It returns errInterrupted if ctx ended before
// the replay.
func (p *player) play(ctx context.Context, progress func(sent int)) error {
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.began = time.Now()
	end := p.replayTime(p.plan.length)
	if p.options.Duration > 0 {
		end = min(end, p.options.Duration)
	}
sending:
	for i := range p.plan.requests {
		r := &p.plan.requests[i]
		due := p.replayTime(r.at)
		if due > end {
			break
		}
		if !sleepUntil(ctx, p.began.Add(due)) {
			break
		}
		isWatch := p.plan.targets[r.target].shape.Verb == "watch"
		if !isWatch {
			select {
			case p.semaphore <- struct{}{}:
			case <-ctx.Done():
				break sending
			}
		}
		p.totals.addLateness(time.Since(p.began) - due)
		ownTurn := p.nextTurn(r)
		group.Go(func() {
			defer ownTurn.end()
			ownTurn.wait(ctx)
			if isWatch {
				p.watch(ctx, r, ownTurn, end)
				return
			}
			defer func() { <-p.semaphore }()
			if t := &p.plan.targets[r.target]; t.object != nil {
				p.totals.add(r, p.writer.send(ctx, t.shape.Verb, t.object))
				return
			}
			p.read(ctx, r, ownTurn.collection)
		})
		progress(i + 1)
	}
	sleepUntil(ctx, p.began.Add(end))
	cancelled := ctx.Err() != nil
	group.Wait()
	p.totals.elapsed = time.Since(p.began)
	if cancelled {
		return errInterrupted
	}
	return nil
}

// replayTime converts a duration of the log, in microseconds, to a duration of the replay.
func (p *player) replayTime(micros int64) time.Duration {
	return time.Duration(float64(micros) * 1000 / p.options.Speed)
}

// sleepUntil sleeps until t. It returns false if ctx ended before.
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

// read sends a GET or a LIST, reads the answer, and adds the result to the totals. c is nil for a
// GET.
func (p *player) read(ctx context.Context, r *request, c *collection) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	began := time.Now()
	req, ok := p.newRequest(ctx, r, c)
	if !ok {
		p.totals.add(r, result{noPage: true})
		return
	}
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := p.transport(r).RoundTrip(req)
	if err != nil {
		p.totals.add(r, result{err: err, took: time.Since(began)})
		return
	}
	defer resp.Body.Close()
	counted := &countingReader{reader: resp.Body}
	var kept headAndTail
	err = readBody(&kept, counted, resp.Header.Get("Content-Encoding"))
	if c != nil && resp.StatusCode == http.StatusOK {
		revision, token := watchevent.ListPosition(watchevent.FormOf(resp.Header.Get("Content-Type")), kept.head, kept.tail)
		c.token = token
		if n, err := strconv.ParseUint(revision, 10, 64); err == nil {
			c.revision.Store(n)
			p.server.noteRevision(n)
		}
	}
	p.totals.add(r, result{status: resp.StatusCode, bytes: counted.count, err: err, took: time.Since(began)})
}

// readBody reads an answer to its end, and decompresses it as a client does.
func readBody(kept *headAndTail, body io.Reader, encoding string) error {
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

// watch opens a watch, reads it for as long as it lasted in the log, and adds the result to the
// totals. end is the time from p.began to the end of the replay.
func (p *player) watch(ctx context.Context, r *request, ownTurn turn, end time.Duration) {
	c := ownTurn.collection
	req, _ := p.newRequest(ctx, r, c)
	ownTurn.end()
	until := p.began.Add(end)
	if r.lasts != openEnded {
		if own := time.Now().Add(p.replayTime(r.lasts)); own.Before(until) {
			until = own
		}
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	began := time.Now()
	resp, err := p.transport(r).RoundTrip(req.WithContext(ctx))
	if err != nil {
		// The end of a short watch may come before its answer does.
		p.totals.add(r, result{err: unlessEnded(ctx, err), took: time.Since(began)})
		return
	}
	defer resp.Body.Close()
	opened := time.Since(began)
	counted := &countingReader{reader: resp.Body}
	events := watchReader{reader: watchevent.Reader{Form: watchevent.FormOf(resp.Header.Get("Content-Type"))},
		onRevision: func(revision uint64) {
			c.revision.Store(revision)
			p.server.noteRevision(revision)
		}}
	if resp.StatusCode == http.StatusOK {
		_, err = io.Copy(&events, counted)
	}
	p.totals.add(r, result{
		status: resp.StatusCode, bytes: counted.count, events: events.changes,
		err: unlessEnded(ctx, err), took: opened, cutShort: ctx.Err() == nil && r.lasts == openEnded,
	})
}

// unlessEnded returns err, or nil if ctx has ended: the error is then the end of the watch.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// transport returns the connection of a request's instance.
func (p *player) transport(r *request) http.RoundTripper {
	return p.server.transports[int(r.instance)%len(p.server.transports)]
}

// countingReader counts the bytes that are read from reader.
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
