package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/checkpoint"
)

const (
	// checkpointRate bounds what checkpoints write to the disk, in bytes per second on
	// average. 100,000 pods take 300 MB, which are written each 2.5 minutes. etcd and API
	// servers still have the changes of that time.
	checkpointRate = 2 << 20
	// checkpointRest is the ratio of the writer's rest to its work. With it the writer takes a
	// tenth of one processor.
	checkpointRest = 9
	// lastCheckpointTimeout bounds the writing at the end of the process, which does not
	// rest. Kubernetes kills a pod 30 s after it asks the pod to end.
	lastCheckpointTimeout = 10 * time.Second
)

// Checkpoints writes what a replica holds to disk, and gives feeds what an earlier run has
// written. Each etcd cluster, and each resource of an API server, has a file.
type Checkpoints struct {
	Dir *checkpoint.Dir
	// Interval is the least time between two rounds of checkpoints.
	Interval time.Duration
	// LeaveOut is checkpoint.Order.LeaveOut.
	LeaveOut func(*cache.Part) bool
	Logger   *slog.Logger
	// worthless says that the replica's objects mean nothing any more (Backends.Fail).
	worthless atomic.Bool

	mu struct {
		sync.Mutex
		// written are the revisions of the files that this process has written, by name.
		written map[string]int64
	}
}

// Revision returns the revision of the last checkpoint of a name that this process has
// written. It returns 0 if there is none.
func (c *Checkpoints) Revision(name string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.written[name]
}

func (c *Checkpoints) setRevision(name string, revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.written == nil {
		c.mu.written = map[string]int64{}
	}
	c.mu.written[name] = revision
}

// KeptBackend is what checkpoints need to know of a backend. The zero value keeps nothing.
type KeptBackend struct {
	// Name is the name of the checkpoint.
	Name string
	// Source returns where the objects come from, for checkpoint.Order.Source. It returns ""
	// while that is not known. Nil keeps nothing.
	Source func() string
}

// etcdKept names the checkpoint of an etcd cluster.
func etcdKept(servers, prefix string, feed *etcdfeed.Feed) KeptBackend {
	return KeptBackend{Name: etcdName(servers), Source: func() string {
		if id := feed.ClusterID(); id != 0 {
			return etcdSource(id, prefix)
		}
		return ""
	}}
}

func etcdName(servers string) string {
	sum := sha256.Sum256([]byte(servers))
	return fmt.Sprintf("etcd-%x", sum[:8])
}

func etcdSource(clusterID uint64, prefix string) string {
	return fmt.Sprintf("etcd %x %s", clusterID, prefix)
}

// ofEtcd returns an etcdfeed.FeedConfig.Checkpoint. It returns nil if c is nil.
func (c *Checkpoints) ofEtcd(servers, prefix string) func(uint64) (feed.Checkpoint, error) {
	if c == nil {
		return nil
	}
	return func(clusterID uint64) (feed.Checkpoint, error) {
		return c.Dir.Open(etcdName(servers), etcdSource(clusterID, prefix))
	}
}

// Run writes checkpoints until the context ends, and then once more.
func (c *Checkpoints) Run(ctx context.Context, backends func() []*Backend) {
	for wait := c.Interval; ; {
		select {
		case <-time.After(wait):
			wait = max(c.Interval, c.writeAll(ctx, backends(), giveWay))
		case <-ctx.Done():
			c.end(backends())
			return
		}
	}
}

// end writes the last checkpoints of the backends, or removes the backends' checkpoints if their
// objects are worthless.
func (c *Checkpoints) end(backends []*Backend) {
	if !c.worthless.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), lastCheckpointTimeout)
		defer cancel()
		c.writeAll(ctx, backends, nil)
		return
	}
	for _, b := range backends {
		if b.Kept().Source == nil {
			continue
		}
		if err := c.Dir.Remove(b.Kept().Name); err != nil {
			c.Logger.Error("Could not remove a checkpoint; remove it by hand before the next start", "err", err)
		}
	}
}

// writeAll writes a checkpoint of each backend that has changed. It returns how long to
// wait at least before the next call, so that checkpointRate holds.
func (c *Checkpoints) writeAll(ctx context.Context, backends []*Backend, pause func(context.Context, time.Duration) error) (wait time.Duration) {
	var written int64
	for _, b := range backends {
		if ctx.Err() != nil || c.worthless.Load() {
			break
		}
		size, err := c.write(ctx, b, pause)
		if err != nil && ctx.Err() == nil {
			c.Logger.Error("Could not write a checkpoint; the one before stays", "of", b.Servers, "err", err)
		}
		written += size
	}
	return time.Duration(written) * time.Second / checkpointRate
}

func (c *Checkpoints) write(ctx context.Context, b *Backend, pause func(context.Context, time.Duration) error) (size int64, err error) {
	kept := b.Kept()
	if kept.Source == nil {
		return 0, nil
	}
	began, source := time.Now(), kept.Source()
	contents, err := b.Cache.Contents()
	if source == "" || errors.Is(err, cache.ErrNotReady) || contents.Revision == c.Revision(kept.Name) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	order := &checkpoint.Order{Source: source, Contents: contents, LeaveOut: c.LeaveOut, Pause: pause}
	if size, err = c.Dir.Write(ctx, kept.Name, order); err != nil {
		return 0, err
	}
	c.setRevision(kept.Name, contents.Revision)
	c.Logger.Debug("Checkpoint is written", "of", b.Servers, "revision", contents.Revision, "bytes", size,
		"took", time.Since(began).Round(time.Millisecond))
	return size, nil
}

// giveWay waits for checkpointRest times as long as the writer worked, so that reads come first.
func giveWay(ctx context.Context, worked time.Duration) error {
	select {
	case <-time.After(checkpointRest * worked):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
