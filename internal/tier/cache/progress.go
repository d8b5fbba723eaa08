package cache

import (
	"context"
	"sync"
	"sync/atomic"
)

// Progress is the revision up to which the cache holds all events. It grows, except that
// restart sets it to 0. Its writers hold Cache.write.
type Progress struct {
	revision atomic.Int64
	mu       struct {
		sync.Mutex
		// moved is closed when the revision changes. Nil means that nobody has asked for it
		// since.
		moved chan struct{}
		// waiting are the waits of notify, the lowest revision first.
		waiting revisionWaits
	}
}

// Revision returns the newest revision up to which the cache is complete. It returns 0 while
// the cache is not loaded.
func (p *Progress) Revision() int64 { return p.revision.Load() }

// Watch returns the revision and a channel that is closed when the revision changes.
func (p *Progress) Watch() (int64, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.moved == nil {
		p.mu.moved = make(chan struct{})
	}
	return p.revision.Load(), p.mu.moved
}

// Wait returns once the revision is at least rv, or with the context's error.
func (p *Progress) Wait(ctx context.Context, rv int64) error {
	for {
		reached, moved := p.Watch()
		if reached >= rv {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// advance moves the revision forward, and calls the functions whose wait is over. It ignores
// an older revision.
func (p *Progress) advance(rv int64) {
	if rv <= p.revision.Load() {
		return
	}
	for _, w := range p.set(rv) {
		w.reached()
	}
}

// restart sets the revision to 0, as before the first load. Waits go on.
func (p *Progress) restart() { p.set(0) }

// set stores the revision and closes moved. It returns the waits that are over.
func (p *Progress) set(rv int64) []*revisionWait {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revision.Store(rv)
	if p.mu.moved != nil {
		close(p.mu.moved)
		p.mu.moved = nil
	}
	return p.mu.waiting.popUpTo(rv)
}
