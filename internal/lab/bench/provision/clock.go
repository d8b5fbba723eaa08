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

// clock has the times of writes of pods by their revisions. It is filled by a watch of etcd
// itself, or by the answers to writes of this process.
type clock struct {
	// followsEtcd says that answers to writes are not taken: they come later.
	followsEtcd bool

	mu struct {
		sync.Mutex
		times map[int64]time.Time
		// lowered are the writes of which an event arrived before.
		lowered map[int64]bool
	}
}

func newClock(followsEtcd bool) *clock {
	c := &clock{followsEtcd: followsEtcd}
	c.mu.times, c.mu.lowered = map[int64]time.Time{}, map[int64]bool{}
	return c
}

func (c *clock) set(revision int64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.times[revision] = at
}

// answered notes the answer to a write of this process.
func (c *clock) answered(revision string, at time.Time) {
	if n, err := strconv.ParseInt(revision, 10, 64); err == nil && !c.followsEtcd {
		c.set(n, at)
	}
}

// delivered notes that an event has arrived. Its write was not later: where processors are
// busy, etcd's own watch may be. That shortens the way of such an event, the more so the
// faster the server is, and so these writes are counted.
func (c *clock) delivered(revision int64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.mu.times[revision]; ok && at.Before(known) {
		c.mu.times[revision] = at
		c.mu.lowered[revision] = true
	}
}

// wasLowered reports whether an event arrived before its write was known.
func (c *clock) wasLowered(revision int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.lowered[revision]
}

// at returns the time of a write, if it is known.
func (c *clock) at(revision int64) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.mu.times[revision]
	return at, ok
}

// knows reports whether a write's time is known, or is not going to be.
func (c *clock) knows(revision int64) bool {
	_, ok := c.at(revision)
	return ok || !c.followsEtcd
}

// podsPrefix is where Kubernetes keeps pods.
const podsPrefix = "/registry/pods/"

// follow watches etcd until ctx ends, which is no error. It calls ready once the watch has
// begun.
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
