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
	conns, err := t.connect(ctx, writers)
	if err != nil {
		return nil, err
	}
	return &writer{target: t, conns: conns}, nil
}

// single is a writer of other changes, over one connection of w's. It need not
// be closed.
func (w *writer) single(f changeFunc) *writer {
	return &writer{target: w.target, conns: w.conns[:1], change: f}
}

// get reads a document over the first of w's connections.
func (w *writer) get(ctx context.Context, r request) ([]byte, error) {
	req, err := w.target.newRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	return w.conns[0].fetchAll(req)
}

func (w *writer) close() { closeAll(w.conns) }

func (w *writer) emit(ctx context.Context, events int, rate float64) error {
	first := w.sent
	w.sent += events
	return w.each(ctx, func(ctx context.Context, turns chan<- int) error {
		return pace(ctx, events, rate, func(i int) error { return give(ctx, turns, first+i) })
	}, func(ctx context.Context, c *conn, i int) error {
		return w.target.write(ctx, c, w.change(i, time.Now()), http.StatusOK)
	})
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

// write sends one change and reads the whole answer.
func (t *target) write(ctx context.Context, c *conn, ch change, want ...int) error {
	req, err := http.NewRequestWithContext(ctx, ch.method, t.base+ch.uri, bytes.NewReader(ch.body))
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

// writePatiently sends a change, once more after each 429 when the server asks for that, as
// client-go does. It returns how often that was.
func (t *target) writePatiently(ctx context.Context, c *conn, ch change, want int) (refused int, err error) {
	for ; ; refused++ {
		err := t.write(ctx, c, ch, want)
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
