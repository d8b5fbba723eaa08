package provision

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// clock has the times of writes of pods by their revisions. The times come from a watch of etcd itself,
// or from the answers to writes of this process. It is safe for concurrent use.
type clock struct {
	// followsEtcd says that the times come from etcd. Answers to writes, which come later, are then
	// ignored.
	followsEtcd bool

	mu struct {
		sync.Mutex
		times map[int64]time.Time // by revision
		// lowered has the revisions whose time lowerToDelivery has changed.
		lowered map[int64]bool
	}
}

// newClock returns a clock without times.
func newClock(followsEtcd bool) *clock {
	c := &clock{followsEtcd: followsEtcd}
	c.mu.times, c.mu.lowered = map[int64]time.Time{}, map[int64]bool{}
	return c
}

// set sets the time of a write.
func (c *clock) set(revision int64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.times[revision] = at
}

// setFromAnswer sets the time of a write of this process to the time of its answer, unless the times
// come from etcd.
func (c *clock) setFromAnswer(revision string, at time.Time) {
	if n, err := strconv.ParseInt(revision, 10, 64); err == nil && !c.followsEtcd {
		c.set(n, at)
	}
}

// lowerToDelivery lowers the time of a write to the time at which its event was delivered, if that is
// earlier. If processors are busy, the event of etcd's own watch, or the answer to the write, may be
// read after the delivery. The
// delivery then seems to take no time, which favours fast servers. The report therefore counts such
// writes.
func (c *clock) lowerToDelivery(revision int64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.mu.times[revision]; ok && at.Before(known) {
		c.mu.times[revision] = at
		c.mu.lowered[revision] = true
	}
}

// wasLowered reports whether lowerToDelivery has changed the time of a write.
func (c *clock) wasLowered(revision int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.lowered[revision]
}

// writeTime returns the time of a write, and whether it is known.
func (c *clock) writeTime(revision int64) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.mu.times[revision]
	return at, ok
}

// needNotWait reports whether the time of a write is known, or comes from an answer, for which
// nobody waits.
func (c *clock) needNotWait(revision int64) bool {
	_, ok := c.writeTime(revision)
	return ok || !c.followsEtcd
}

// podsPrefix is where Kubernetes keeps pods.
const podsPrefix = "/registry/pods/"

// follow sets times by a watch of etcd until ctx ends. The end of ctx is not an error. follow calls
// ready once the watch has started.
func (c *clock) follow(ctx context.Context, endpoint string, ready func()) error {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Context: ctx, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("connect to etcd: %w", err)
	}
	defer etcd.Close()
	for response := range etcd.Watch(ctx, podsPrefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify()) {
		now := time.Now()
		if response.Created {
			ready()
		}
		for _, e := range response.Events {
			c.set(e.Kv.ModRevision, now)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("etcd has ended the watch of pods")
}
