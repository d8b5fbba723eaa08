package cache

import (
	"context"
	"sync"
	"time"
)

// Source answers where etcd is.
type Source interface {
	// Revision reads the current revision from a quorum.
	Revision(context.Context) (int64, error)
	// RequestProgress asks for a progress notification on the feed's watch.
	RequestProgress(context.Context) error
}

// Consistent makes reads linearizable: a read that begins after a write was
// acknowledged sees it. All that wait at one moment share one revision read and
// one progress request, so their number costs etcd nothing.
type Consistent struct {
	progress *Progress
	source   Source
	timeout  time.Duration

	mu struct {
		sync.Mutex
		// running says that a revision read is on its way.
		running bool
		// next collects the reads that came too late for it.
		next *round
	}
}

// round is one revision read and those that wait for it.
type round struct {
	done     chan struct{}
	revision int64
	err      error
}

const (
	// consistentTimeout bounds a shared revision read, and each reader's wait for
	// it and for the cache. A reader's own context may end before.
	consistentTimeout = 10 * time.Second
	// nudge is the pause between progress requests while the feed is behind. One
	// is enough unless the watch is being opened anew.
	nudge = 100 * time.Millisecond
)

// NewConsistent waits for a cache to catch up with a source.
func NewConsistent(c *Cache, source Source) *Consistent {
	return &Consistent{progress: c.Progress(), source: source, timeout: consistentTimeout}
}

// Wait returns when the cache holds every write that was acknowledged before
// the call, and the revision that proves it. It waits 10 s at most.
func (c *Consistent) Wait(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r := c.join()
	select {
	case <-r.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.revision, c.progress.Wait(ctx, r.revision)
}

// join returns a round whose revision read has not begun.
func (c *Consistent) join() *round {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.next == nil {
		c.mu.next = &round{done: make(chan struct{})}
	}
	r := c.mu.next
	if !c.mu.running {
		c.mu.running, c.mu.next = true, nil
		go c.run(r)
	}
	return r
}

// run does one round and starts the next if somebody waits for it.
func (c *Consistent) run(r *round) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	r.revision, r.err = c.source.Revision(ctx)
	close(r.done)
	c.mu.Lock()
	next := c.mu.next
	c.mu.running, c.mu.next = next != nil, nil
	c.mu.Unlock()
	if next != nil {
		go c.run(next)
	}
	if r.err == nil {
		c.catchUp(ctx, r.revision)
	}
}

// catchUp asks for progress until the feed has passed a revision.
func (c *Consistent) catchUp(ctx context.Context, revision int64) {
	ticker := time.NewTicker(nudge)
	defer ticker.Stop()
	for {
		now, moved := c.progress.Watch()
		if now >= revision {
			return
		}
		// A request that is lost is repeated with the next tick.
		_ = c.source.RequestProgress(ctx)
		select {
		case <-moved:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
