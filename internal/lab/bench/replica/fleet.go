package replica

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/conn/watchclient"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// fleet has the clients that read at servers.
type fleet struct {
	ctx     context.Context
	fail    context.CancelCauseFunc
	clients []*client

	synced atomic.Int64 // informers that have all objects
	events atomic.Int64 // measured events that all informers have received
	// measuredSince is the time from which writes are measured, in nanoseconds since 1970. 0: no
	// writes are measured yet.
	measuredSince atomic.Int64
}

// client is a program with an informer of each resource. The informers share its connection. One
// goroutine reads for all informers: a fleet would otherwise take more CPU than the server.
type client struct {
	fleet     *fleet
	wire      *watchclient.Client
	identity  watchclient.Identity
	informers []*informer
	spans     []time.Duration // of measured events
}

// openFleet connects a number of clients at once, to the targets round-robin. It returns when each
// informer has all objects, or with an error after timeout. The caller must call close, also after
// an error.
func openFleet(ctx context.Context, targets []*testbed.Target, clients int, timeout time.Duration) (*fleet, error) {
	f := &fleet{}
	f.ctx, f.fail = context.WithCancelCause(ctx)
	var servers []*watchclient.Server
	for _, t := range targets {
		server, err := watchclient.NewServer(t.Config.REST, clients)
		if err != nil {
			return f, err
		}
		servers = append(servers, server)
	}
	for n := range clients {
		c := &client{
			fleet: f, wire: servers[n%len(servers)].NewClient(f.ctx, func(int) {}),
			identity: watchclient.Identity{UserAgent: "millrace-bench"},
		}
		f.clients = append(f.clients, c)
		for _, r := range watchedResources() {
			i := &informer{resource: r, client: c}
			c.informers = append(c.informers, i)
			i.startWatch()
		}
	}
	return f, f.await(&f.synced, int64(f.informers()), timeout, "informers have all objects")
}

// informers returns the number of informers of all clients.
func (f *fleet) informers() int { return len(f.clients) * len(watchedResources()) }

// await does what testbed.AwaitCount does, until the fleet fails.
func (f *fleet) await(counter *atomic.Int64, value int64, timeout time.Duration, what string) error {
	return testbed.AwaitCount(f.ctx, counter, value, timeout, what)
}

// close ends all watches. When it has returned, the fields of clients and informers may be read. It
// may be called again.
func (f *fleet) close() {
	f.fail(nil)
	var closing sync.WaitGroup
	for _, c := range f.clients {
		closing.Go(c.wire.Close)
	}
	closing.Wait()
}

// check returns an error unless every informer has received each measured write once, and all
// informers of a resource began with the same number of objects. It must be called after close.
func (f *fleet) check(w *writes) error {
	for n, c := range f.clients {
		for r, i := range c.informers {
			got, want := &i.received, &w.written[r]
			if got.events.Load() != want.events.Load() || got.stamps.Load() != want.stamps.Load() {
				return fmt.Errorf("client %d received %d events of %s that are not the %d written events",
					n, got.events.Load(), i.resource.name, want.events.Load())
			}
			if first := f.clients[0].informers[r].objects; i.objects != first || first < w.objects {
				return fmt.Errorf("client %d started with %d %s, the first client with %d", n, i.objects, i.resource.name, first)
			}
		}
	}
	return nil
}

// totals returns the spans of all measured events: the times from right before a write to the
// receipt of its event. It also returns the number of resumed watches, and the number of watches
// that were refused and retried. It must be called after close.
func (f *fleet) totals() (spans []time.Duration, resumed, retries int) {
	for _, c := range f.clients {
		spans = append(spans, c.spans...)
		for _, i := range c.informers {
			resumed, retries = resumed+i.resumed, retries+i.retries
		}
	}
	return spans, resumed, retries
}
