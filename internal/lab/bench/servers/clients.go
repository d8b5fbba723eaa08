package servers

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// client is the connections of all clients, and what each reads at.
type client struct {
	conns   []*testbed.Conn
	targets []*testbed.Target
}

// answers are what clients received.
type answers struct {
	times []time.Duration
	bytes int64
}

// send has each client send requests until a time, one at least. The first error ends all.
func (m *measurement) send(ctx context.Context, w workload, of client, until time.Time) (answers, error) {
	return of.each(ctx, w, func(ctx context.Context, request func(began time.Time) error) error {
		for first := true; first || time.Now().Before(until); first = false {
			if err := request(time.Now()); err != nil {
				return err
			}
		}
		return nil
	})
}

// sendAtRate sends requests at the rate of a workload until a time, one at least. A request
// that is due while all clients wait for answers, or while this process gets no processor, is
// sent later, but counts from when it was due.
func (m *measurement) sendAtRate(ctx context.Context, w workload, of client, until time.Time) (answers, error) {
	n := max(1, int(w.rate*time.Until(until).Seconds()+0.5))
	due := make(chan time.Time, n)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var pacing sync.WaitGroup
	start := time.Now()
	pacing.Go(func() {
		defer close(due)
		if err := testbed.AtRate(ctx, n, w.rate, func(i int) error { due <- start.Add(testbed.DueAfter(i, w.rate)); return nil }); err != nil {
			fail(err)
		}
	})
	all, err := of.each(ctx, w, func(ctx context.Context, request func(began time.Time) error) error {
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

// each runs all clients and returns when they have ended. request sends a request, whose time
// begins at began. The first error ends all.
func (of client) each(ctx context.Context, w workload, run func(ctx context.Context, request func(began time.Time) error) error) (all answers, err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	received := make([]answers, len(of.conns))
	var group sync.WaitGroup
	for i, c := range of.conns {
		group.Go(func() {
			req, err := of.targets[i].NewRequest(ctx, testbed.Request{URI: w.uri, Accept: testbed.AcceptJSON})
			if err == nil {
				err = run(ctx, func(began time.Time) error {
					n, err := c.Fetch(req)
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
