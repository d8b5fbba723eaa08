package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// writers is how many writes may be in flight. When a server is slower than
// that, the rate falls; the report has the rate that was reached.
const writers = 16

// change is one write.
type change struct {
	method, uri, contentType string
	body                     []byte
}

// changeFunc makes write i of a run, at the moment when it is sent.
type changeFunc func(i int, at time.Time) change

// writer is the source of a server's events.
type writer struct {
	target *target
	conns  []*conn
	change changeFunc // set before emit
	sent   int        // over all calls of emit
}

// newWriter connects. The caller must call close.
func newWriter(ctx context.Context, t *target) (*writer, error) {
	conns, err := (&loader{target: t}).connect(ctx, writers)
	if err != nil {
		return nil, err
	}
	return &writer{target: t, conns: conns}, nil
}

func (w *writer) close() { closeAll(w.conns) }

func (w *writer) emit(ctx context.Context, events int, rate float64) error {
	first := w.sent
	w.sent += events
	return w.each(ctx, func(ctx context.Context, turns chan<- int) error {
		return pace(ctx, events, rate, func(i int) error { return give(ctx, turns, first+i) })
	}, func(ctx context.Context, c *conn, i int) error {
		return w.send(ctx, c, w.change(i, time.Now()), http.StatusOK)
	})
}

// create makes a set's config maps that are not there yet.
func (w *writer) create(ctx context.Context, set string, n int) error {
	return w.each(ctx, upTo(n), func(ctx context.Context, c *conn, i int) error {
		ch := change{method: http.MethodPost, uri: configMapsPath, contentType: acceptJSON, body: configMap(set, i, 0, time.Now())}
		return w.send(ctx, c, ch, http.StatusCreated, http.StatusConflict)
	})
}

// remove deletes all that create made, of any set.
func (w *writer) remove(ctx context.Context) error {
	return w.send(ctx, w.conns[0], change{method: http.MethodDelete, uri: configMapsPath + "?labelSelector=" + watchLabel}, http.StatusOK)
}

// upTo gives n turns as fast as they are taken.
func upTo(n int) func(context.Context, chan<- int) error {
	return func(ctx context.Context, turns chan<- int) error {
		for i := range n {
			if err := give(ctx, turns, i); err != nil {
				return err
			}
		}
		return nil
	}
}

func give(ctx context.Context, turns chan<- int, i int) error {
	select {
	case turns <- i:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// each has every connection take turns. The first error ends it.
func (w *writer) each(ctx context.Context, feed func(context.Context, chan<- int) error, do func(context.Context, *conn, int) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	turns := make(chan int)
	var group sync.WaitGroup
	for _, c := range w.conns {
		group.Go(func() {
			for i := range turns {
				if err := do(ctx, c, i); err != nil {
					fail(err)
				}
			}
		})
	}
	err := feed(ctx, turns)
	close(turns)
	group.Wait()
	return cause(ctx, err)
}

// send sends one change and reads the whole answer.
func (w *writer) send(ctx context.Context, c *conn, ch change, want ...int) error {
	req, err := http.NewRequestWithContext(ctx, ch.method, w.target.base+ch.uri, bytes.NewReader(ch.body))
	if err != nil {
		return fmt.Errorf("build request: %w", err)
	}
	req.Header.Set("Accept", acceptJSON)
	req.Header.Set("Content-Type", ch.contentType)
	req.Header.Set("User-Agent", "millrace-bench")
	resp, err := c.rt.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", ch.method, ch.uri, cause(ctx, err))
	}
	defer resp.Body.Close()
	if !slices.Contains(want, resp.StatusCode) {
		return newStatusError(req, resp)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// sendPatiently sends a change, once more after each 429 when the server asks for that, as
// client-go does. It returns how often that was.
func (w *writer) sendPatiently(ctx context.Context, c *conn, ch change, want int) (refused int, err error) {
	for ; ; refused++ {
		err := w.send(ctx, c, ch, want)
		later := retryAfter(err)
		if later == 0 {
			return refused, err
		}
		if err := sleep(ctx, later); err != nil {
			return refused, err
		}
	}
}

// retryAfter is how long a server that has refused a request for now asks to
// wait; zero for any other error.
func retryAfter(err error) time.Duration {
	var refused *statusError
	if !errors.As(err, &refused) || refused.code != http.StatusTooManyRequests {
		return 0
	}
	return refused.retryAfter
}
