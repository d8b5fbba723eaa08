package cache

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/tier/rounds"
)

// RevisionSource says how far etcd is, or the API server that the feed follows. A feed
// implements it.
type RevisionSource interface {
	// Revision reads the current revision from a quorum, as feed.Feed says.
	Revision(context.Context) (int64, error)
	// RequestProgress asks for the feed's progress, as feed.Feed says.
	RequestProgress(context.Context) error
}

// Consistent makes reads linearizable: a read that begins after a write was acknowledged
// sees that write. Kubernetes promises that of reads without a resourceVersion.
//
// It reads etcd's current revision from a quorum and waits until the feed has passed it.
// All reads that wait at one moment share one revision read and its progress requests. So
// their number costs etcd nothing. A read cannot join a revision read that has already
// begun, for a write may have been acknowledged since. So a read waits for up to two
// revision reads.
type Consistent struct {
	progress *Progress
	source   RevisionSource
	timeout  time.Duration
	proofs   proofs
	// newest is the revision read that waiting reads share.
	newest *rounds.Question[int64]

	mu struct {
		sync.Mutex
		// nudging says that a timer runs which asks etcd for progress while functions that
		// Notify was given wait.
		nudging bool
	}
}

const (
	// consistentTimeout bounds a shared revision read. It also bounds each reader's wait
	// for that read and for the cache. A reader's own context may end before.
	consistentTimeout = 10 * time.Second
	// nudgePeriod is the time between progress requests while the feed lags. One request
	// suffices unless the watch is being reopened.
	nudgePeriod = 100 * time.Millisecond
)

// NewConsistent makes a Consistent of a cache and the source that its feed follows.
func NewConsistent(c *Cache, source RevisionSource) *Consistent {
	made := &Consistent{progress: c.Progress(), source: source, timeout: consistentTimeout}
	made.newest = rounds.New(rounds.Config[int64]{Ask: made.readRevision, Timeout: consistentTimeout})
	return made
}

// Wait returns once the cache holds every write that was acknowledged before the call. It
// returns the revision that proves it. It waits for at most 10 s.
func (c *Consistent) Wait(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	revision, err := c.newest.Answer(ctx)
	if err != nil {
		return 0, err
	}
	return revision, c.progress.Wait(ctx, revision)
}

// Revision returns etcd's current revision, read from a quorum after the call. It waits for
// at most 10 s, and not for the cache.
func (c *Consistent) Revision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.newest.Answer(ctx)
}

// readRevision does one revision read, and makes the feed catch up with the revision.
func (c *Consistent) readRevision(ctx context.Context) (int64, error) {
	began := time.Now()
	revision, err := c.source.Revision(ctx)
	if err == nil {
		c.proofs.add(check{began, revision}, c.progress.Revision())
		if c.progress.Revision() < revision {
			go c.catchUp(revision)
		}
	}
	return revision, err
}

// catchUp requests progress notifications until the feed has reached revision, for at most 10 s.
func (c *Consistent) catchUp(revision int64) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	ticker := time.NewTicker(nudgePeriod)
	defer ticker.Stop()
	for {
		reached, moved := c.progress.Watch()
		if reached >= revision {
			return
		}
		// The next tick repeats a request that was lost.
		_ = c.source.RequestProgress(ctx)
		select {
		case <-moved:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// Notify calls reached once, when the cache holds every event up to revision: immediately if
// it does already. reached must not block, and must take none but innermost locks. A
// concurrent call of reached may come after cancel.
//
// Etcd may have reached the revision by a write that the feed does not see. So Notify
// joins the round of consistent reads, which moves the feed up to etcd's present revision
// within milliseconds. A revision that is ahead of etcd's comes by a later write, which the
// feed may not see either. So one timer asks etcd for progress while functions wait, however
// many they are.
func (c *Consistent) Notify(revision int64, reached func()) (cancel func()) {
	cancel = c.progress.notify(revision, reached)
	if c.progress.Revision() < revision {
		c.newest.Join()
		c.startNudging()
	}
	return cancel
}

// startNudging starts the timer, unless it runs.
func (c *Consistent) startNudging() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.nudging {
		c.mu.nudging = true
		time.AfterFunc(nudgePeriod, c.nudge)
	}
}

// nudge asks etcd for progress and starts the timer again, unless no function waits.
func (c *Consistent) nudge() {
	if !c.keepNudging() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	_ = c.source.RequestProgress(ctx) // the next tick repeats a request that was lost
	time.AfterFunc(nudgePeriod, c.nudge)
}

// keepNudging reports whether functions still wait. If not, the next Notify starts the timer.
func (c *Consistent) keepNudging() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.nudging = c.progress.hasWaits()
	return c.mu.nudging
}
