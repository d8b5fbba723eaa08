package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/checkpoint"
)

const (
	// checkpointRate bounds what checkpoints write to the disk, on the average, in bytes
	// per second. 300 MB, which 100,000 pods take, are written each 2.5 minutes: etcd and
	// API servers still have the changes of that time.
	checkpointRate = 2 << 20
	// checkpointRest is how many times as long as it works the writer rests: it takes a
	// tenth of one processor.
	checkpointRest = 9
	// lastCheckpointTimeout bounds the writing at the end of the process, which does not
	// rest. Kubernetes kills a pod 30 s after it asks it to end.
	lastCheckpointTimeout = 10 * time.Second
)

// checkpoints writes what a replica holds to disk, and gives feeds what an earlier run has
// written. Each etcd cluster, and each resource of an API server, has a file.
type checkpoints struct {
	dir *checkpoint.Dir
	// interval is the least time between two checkpoints.
	interval time.Duration
	// leaveOut reports whether a resource is not to be written.
	leaveOut func(*cache.Part) bool
	// upstream identifies the API server. It is empty with etcd.
	upstream string
	// isCurrent reports whether the API server is still of the version that upstream names.
	isCurrent func() bool
	logger    *slog.Logger
	// worthless says that the replica's objects mean nothing any more.
	worthless atomic.Bool

	mu struct {
		sync.Mutex
		// written are the revisions of the files that this process has written, by name.
		written map[string]int64
	}
}

// revision returns the revision of the last checkpoint that was written, 0 if there is
// none.
func (c *checkpoints) revision(name string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.written[name]
}

func (c *checkpoints) setRevision(name string, revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.written == nil {
		c.mu.written = map[string]int64{}
	}
	c.mu.written[name] = revision
}

// keptBackend is what checkpoints need to know of a backend.
type keptBackend struct {
	// name is the name of its checkpoint, and source says where its objects come from. It
	// is empty before that is known, and when it is not known any more.
	name   string
	source func() string
}

// etcdKept names the checkpoint of an etcd cluster.
func etcdKept(servers, prefix string, feed *etcdfeed.Feed) keptBackend {
	return keptBackend{name: etcdName(servers), source: func() string {
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

// ofEtcd returns an etcdfeed.FeedConfig.Checkpoint. It is nil if nothing is kept.
func (c *checkpoints) ofEtcd(servers, prefix string) func(uint64) (etcdfeed.Checkpoint, error) {
	if c == nil {
		return nil
	}
	return func(clusterID uint64) (etcdfeed.Checkpoint, error) {
		return c.dir.Open(etcdName(servers), etcdSource(clusterID, prefix))
	}
}

// ofResource names the checkpoint of a resource of an API server, which is followed at a
// URL. The second result is an apifeed.Config.Checkpoint, nil if nothing is kept.
func (c *checkpoints) ofResource(resource, path string, protobuf bool) (keptBackend, func() (etcdfeed.Checkpoint, error)) {
	if c == nil {
		return keptBackend{}, nil
	}
	source := fmt.Sprintf("API server %s %s protobuf=%v", c.upstream, path, protobuf)
	return keptBackend{name: resource, source: func() string {
			if !c.isCurrent() {
				return ""
			}
			return source
		}},
		func() (etcdfeed.Checkpoint, error) { return c.dir.Open(resource, source) }
}

// run writes checkpoints until the context ends, and then once more.
func (c *checkpoints) run(ctx context.Context, backends func() []*backend) {
	for wait := c.interval; ; {
		select {
		case <-time.After(wait):
			wait = max(c.interval, c.writeAll(ctx, backends(), giveWay))
		case <-ctx.Done():
			c.end(backends())
			return
		}
	}
}

// end writes the last checkpoints, or removes all if they are worthless.
func (c *checkpoints) end(backends []*backend) {
	if !c.worthless.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), lastCheckpointTimeout)
		defer cancel()
		c.writeAll(ctx, backends, nil)
		return
	}
	for _, b := range backends {
		if err := c.dir.Remove(b.kept.name); err != nil {
			c.logger.Error("Could not remove a checkpoint; remove it by hand before the next start", "err", err)
		}
	}
}

// writeAll writes a checkpoint of each backend that has changed. It returns how long to
// wait at least before the next.
func (c *checkpoints) writeAll(ctx context.Context, backends []*backend, pause func(context.Context, time.Duration) error) (wait time.Duration) {
	var written int64
	for _, b := range backends {
		if ctx.Err() != nil || c.worthless.Load() {
			break
		}
		size, err := c.write(ctx, b, pause)
		if err != nil && ctx.Err() == nil {
			c.logger.Error("Could not write a checkpoint; the one before stays", "of", b.servers, "err", err)
		}
		written += size
	}
	return time.Duration(written) * time.Second / checkpointRate
}

func (c *checkpoints) write(ctx context.Context, b *backend, pause func(context.Context, time.Duration) error) (size int64, err error) {
	began, source := time.Now(), b.kept.source()
	contents, err := b.Cache.Contents()
	if source == "" || errors.Is(err, cache.ErrNotReady) || contents.Revision == c.revision(b.kept.name) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	order := &checkpoint.Order{Source: source, Contents: contents, LeaveOut: c.leaveOut, Pause: pause}
	if size, err = c.dir.Write(ctx, b.kept.name, order); err != nil {
		return 0, err
	}
	c.setRevision(b.kept.name, contents.Revision)
	c.logger.Debug("Checkpoint is written", "of", b.servers, "revision", contents.Revision, "bytes", size,
		"took", time.Since(began).Round(time.Millisecond))
	return size, nil
}

// giveWay waits for a while that depends on how long the writer worked, so that reads come
// first.
func giveWay(ctx context.Context, worked time.Duration) error {
	select {
	case <-time.After(checkpointRest * worked):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
