package testbed

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

// writerConns is the number of a Writer's connections, which bounds the writes in flight. If
// the server cannot keep up, the rate falls. The report has the rate that was reached.
const writerConns = 16

// Change is one write.
type Change struct {
	Method, URI, ContentType string
	Body                     []byte
}

// ChangeFunc returns write i of a run. It is called at time at, right before the write is sent.
// Calls may be concurrent.
type ChangeFunc func(i int, at time.Time) Change

// Writer sends writes over several connections. One goroutine may use it at a time.
type Writer struct {
	Target *Target
	Conns  []*Conn
	Change ChangeFunc // required by Emit
	sent   int        // number of writes of all calls of Emit
}

// NewWriter connects to the server and returns a Writer. The caller must call Close.
func NewWriter(ctx context.Context, t *Target) (*Writer, error) {
	conns, err := t.Connect(ctx, writerConns)
	if err != nil {
		return nil, err
	}
	return &Writer{Target: t, Conns: conns}, nil
}

// Single returns a Writer of other changes over one of w's connections. It must not be used at
// the same time as w, and must not be closed.
func (w *Writer) Single(f ChangeFunc) *Writer {
	return &Writer{Target: w.Target, Conns: w.Conns[:1], Change: f}
}

// FetchBody returns a document, which it reads over the first of w's connections.
func (w *Writer) FetchBody(ctx context.Context, r Request) ([]byte, error) {
	req, err := w.Target.NewRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	return w.Conns[0].FetchBody(req)
}

// Close closes the connections.
func (w *Writer) Close() { CloseAll(w.Conns) }

// Emit sends a number of writes, at a rate in writes per second, which must be above 0. It
// returns when all writes are acknowledged. Any status but 200 ends it with an error.
func (w *Writer) Emit(ctx context.Context, events int, rate float64) error {
	first := w.sent
	w.sent += events
	return w.Each(ctx, func(ctx context.Context, turns chan<- int) error {
		return AtRate(ctx, events, rate, func(i int) error { return OfferTurn(ctx, turns, first+i) })
	}, func(ctx context.Context, c *Conn, i int) error {
		return w.Target.Write(ctx, c, w.Change(i, time.Now()), http.StatusOK)
	})
}

// EmitDuring runs do, and sends writes at a rate until do has ended, and for up to half a second more.
// An error of a write ends the writes, but not do. It returns the number of writes, and an error that
// joins the error of do and the error of the writes. At rate 0 there are no writes.
func (w *Writer) EmitDuring(ctx context.Context, rate float64, do func() error) (writes int, err error) {
	if rate == 0 {
		return 0, do()
	}
	const part = 500 * time.Millisecond // after each, do may have ended
	n := EventsIn(part, rate)
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			if err := w.Emit(ctx, n, rate); err != nil {
				ended <- err
				return
			}
			writes += n
			select {
			case <-done:
				ended <- nil
				return
			default:
			}
		}
	}()
	err = do()
	close(done)
	err = errors.Join(err, <-ended)
	return writes, err
}

// Turns returns a feed for Each, which offers turns 0 to n-1 as fast as they are taken.
func Turns(n int) func(context.Context, chan<- int) error {
	return func(ctx context.Context, turns chan<- int) error {
		for i := range n {
			if err := OfferTurn(ctx, turns, i); err != nil {
				return err
			}
		}
		return nil
	}
}

// OfferTurn sends turn i to turns. If ctx ends first, it returns the cause of that.
func OfferTurn(ctx context.Context, turns chan<- int, i int) error {
	select {
	case turns <- i:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Each calls do for the turns that feed offers, with one goroutine for each connection. It
// returns when all have ended. The first error ends them.
func (w *Writer) Each(ctx context.Context, feed func(context.Context, chan<- int) error, do func(context.Context, *Conn, int) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	turns := make(chan int)
	var group sync.WaitGroup
	for _, c := range w.Conns {
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
	return Cause(ctx, err)
}

// Write sends one change and reads the whole answer. A status that is not in want is a
// *StatusError.
func (t *Target) Write(ctx context.Context, c *Conn, ch Change, want ...int) error {
	_, err := t.WriteAndRead(ctx, c, ch, want...)
	return err
}

// WriteAndRead does what Write does, and returns the answer's body.
func (t *Target) WriteAndRead(ctx context.Context, c *Conn, ch Change, want ...int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, ch.Method, t.BaseURL+ch.URI, bytes.NewReader(ch.Body))
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	req.Header.Set("Accept", AcceptJSON)
	req.Header.Set("Content-Type", ch.ContentType)
	req.Header.Set("User-Agent", "millrace-bench")
	resp, err := c.rt.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", ch.Method, ch.URI, Cause(ctx, err))
	}
	defer resp.Body.Close()
	if !slices.Contains(want, resp.StatusCode) {
		return nil, newStatusError(req, resp)
	}
	return io.ReadAll(resp.Body)
}

// WriteWithRetry does what Write does, and sends the change again after each 429, as
// RetryRefused does. It returns the number of 429s.
func (t *Target) WriteWithRetry(ctx context.Context, c *Conn, ch Change, want int) (refused int, err error) {
	return RetryRefused(ctx, func() error { return t.Write(ctx, c, ch, want) })
}
