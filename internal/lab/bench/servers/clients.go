package servers

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// clients are the connections of all clients, and the server at which each reads.
type clients struct {
	conns   []*testbed.Conn
	targets []*testbed.Target
}

// answers are the answers that clients received.
type answers struct {
	times []time.Duration // of each request
	bytes int64           // of all bodies, on the wire
}

// send lets each client send requests until a time, and at least one request. The first error ends
// all clients.
func (m *measurement) send(ctx context.Context, w workload, c clients, until time.Time) (answers, error) {
	return c.each(ctx, w, func(ctx context.Context, request func(began time.Time) error) error {
		for first := true; first || time.Now().Before(until); first = false {
			if err := request(time.Now()); err != nil {
				return err
			}
		}
		return nil
	})
}

// sendAtRate sends requests at the rate of a workload until a time, and at least one. A request is
// sent late if all clients wait for answers when it is due, or if this process gets no processor.
// Its time counts from when it was due.
func (m *measurement) sendAtRate(ctx context.Context, w workload, c clients, until time.Time) (answers, error) {
	n := max(1, int(w.rate*time.Until(until).Seconds()+0.5))
	due := make(chan time.Time, n)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var pacing sync.WaitGroup
	start := time.Now()
	pacing.Go(func() {
		defer close(due)
		err := testbed.AtRate(ctx, n, w.rate, func(i int) error {
			due <- start.Add(testbed.DueAfter(i, w.rate))
			return nil
		})
		if err != nil {
			fail(err)
		}
	})
	all, err := c.each(ctx, w, func(ctx context.Context, request func(began time.Time) error) error {
		for began := range due {
			if err := request(began); err != nil {
				fail(err)
				return err
			}
		}
		return nil
	})
	pacing.Wait()
	return all, err
}

// each calls run for each client, and returns all answers when the calls have ended. run sends
// requests by request: their times count from began. The first error ends all clients.
func (c clients) each(ctx context.Context, w workload, run func(ctx context.Context, request func(began time.Time) error) error) (all answers, err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	received := make([]answers, len(c.conns))
	var group sync.WaitGroup
	for i, conn := range c.conns {
		group.Go(func() {
			req, err := c.targets[i].NewRequest(ctx, testbed.Request{URI: w.uri, Accept: testbed.AcceptJSON})
			if err == nil {
				err = run(ctx, func(began time.Time) error {
					n, err := conn.Fetch(req)
					if err == nil {
						received[i].times = append(received[i].times, time.Since(began))
						received[i].bytes += n
					}
					return err
				})
			}
			if err != nil {
				fail(err)
			}
		})
	}
	group.Wait()
	for _, one := range received {
		all.times = append(all.times, one.times...)
		all.bytes += one.bytes
	}
	return all, context.Cause(ctx)
}
