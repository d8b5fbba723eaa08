package follow

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/feed"
)

// gate is the sink of one feed. Once it is shut, nothing that the feed still does changes the
// cache. So another feed can fill the cache, or the objects can be dropped.
type gate struct {
	sink feed.Sink
	// grown is called after each page of a load.
	grown func()
	// loading is the bytes of the load under way.
	loading atomic.Int64
	mu      struct {
		sync.Mutex
		shut bool
	}
}

var _ feed.Sink = (*gate)(nil)

// close shuts the gate. It returns once no call of the feed is under way.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.shut = true
}

// pass calls a function unless the gate is shut.
func (g *gate) pass(call func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mu.shut {
		call()
	}
}

// BeginLoad implements feed.Sink.
func (g *gate) BeginLoad() feed.Loader {
	g.loading.Store(0)
	return &gateLoader{gate: g, loader: g.sink.BeginLoad()}
}

// Received implements feed.Sink.
func (g *gate) Received(at time.Time) { g.pass(func() { g.sink.Received(at) }) }

// Apply implements feed.Sink.
func (g *gate) Apply(ctx context.Context, events []feed.Object) {
	g.pass(func() { g.sink.Apply(ctx, events) })
}

// Progressed implements feed.Sink.
func (g *gate) Progressed(revision int64) { g.pass(func() { g.sink.Progressed(revision) }) }

type gateLoader struct {
	gate   *gate
	loader feed.Loader
}

// Expect implements feed.Loader.
func (l *gateLoader) Expect(newest int64) { l.loader.Expect(newest) }

// Unchanged implements feed.Loader.
func (l *gateLoader) Unchanged(prefix string, since int64) { l.loader.Unchanged(prefix, since) }

// Add implements feed.Loader.
func (l *gateLoader) Add(ctx context.Context, page []feed.Object) {
	var bytes int64
	for _, o := range page {
		bytes += int64(len(o.Value))
	}
	l.gate.pass(func() { l.loader.Add(ctx, page) })
	l.gate.loading.Add(bytes)
	l.gate.grown()
}

// End implements feed.Loader.
func (l *gateLoader) End(ctx context.Context, revision int64) {
	l.gate.pass(func() { l.loader.End(ctx, revision) })
	l.gate.loading.Store(0)
}
