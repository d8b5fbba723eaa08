package source

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/lifetime"
	"github.com/millrace/millrace/internal/tier/scrub"
	"github.com/millrace/millrace/internal/tier/storage"
)

// Source is where the objects of a server come from: Etcd, or what a replica follows by an API.
// It is safe for concurrent use.
type Source interface {
	// Of returns what the storage of a resource reads. It may open a cache and a feed for the
	// resource.
	Of(*storagebackend.ConfigForResource) (*storage.Backend, error)
	// All returns all backends that have a feed, in no order.
	All() []*Backend
	// Run runs the feeds until the context ends.
	Run(context.Context)
	// WaitLoaded waits until all caches that a server needs to be ready have loaded.
	WaitLoaded(context.Context) error
	// Healthy returns an error if too few feeds follow for a server to be ready.
	Healthy() error
	// RunScrubbers checks the objects in memory until the context ends.
	RunScrubbers(context.Context)
	// CacheReadyError returns an error while objects in memory are known to be wrong, and another
	// server takes clients. It is a check of readiness.
	CacheReadyError() error
	// BrokenSince returns since when a stored resource is not followed. It returns zero for a
	// resource that is followed, or never was.
	BrokenSince(schema.GroupResource) time.Time
	// Depth returns the number of replicas that an event has passed when it is in a cache here,
	// this one included. It returns 0 at a server.
	Depth() int
	// Close releases what feeds and caches hold. Neither may be used any more.
	Close()
}

// Backends are a source, and what all of its backends have in common. All fields are set before
// the first call and never change.
type Backends struct {
	Source
	// Cache is the configuration of each cache.
	Cache cache.Config
	// ReadOnly says that nothing is written: the server is a replica.
	ReadOnly bool
	// MaxStaleness is storage.Backend.MaxStaleness of all backends.
	MaxStaleness  time.Duration
	WatchAccounts *slo.Watches
	Logger        *slog.Logger
	// Checkpoints is nil if nothing is kept on disk.
	Checkpoints *Checkpoints
	// Failed receives the first error of Fail. It must have room for one.
	Failed chan error
}

// Feed follows the source of a cache.
type Feed interface {
	cache.RevisionSource
	// Healthy returns nil while the feed follows its source, and otherwise why it does not.
	Healthy() error
	// BrokenSince returns when the feed ceased to follow its source. It returns zero if
	// the feed follows its source or has not followed it yet.
	BrokenSince() time.Time
}

// Backend is one etcd cluster, or one resource of an API server, with its cache and feed.
type Backend struct {
	storage.Backend
	Feed Feed
	// Servers are the cluster's URLs, separated by commas, or the URL of the resource.
	Servers string
	// Scrubber checks the cache. It is nil if nothing is checked, and for a resource of an
	// API server.
	Scrubber *scrub.Scrubber
	// Cluster returns the id of the etcd cluster. It is nil for a resource of an API server.
	Cluster func() string
	// Kept returns what checkpoints need to know of the backend now.
	Kept func() KeptBackend
}

// HeardAt returns when a feed of an API server last received an event or a bookmark. It
// returns zero before the first of them, and for other feeds.
func (b *Backend) HeardAt() time.Time {
	if hears, ok := b.Feed.(interface{ HeardAt() time.Time }); ok {
		return hears.HeardAt()
	}
	return time.Time{}
}

// Fail reports an error after which the objects in the caches mean nothing any more. It does not
// block. No checkpoint is written after it.
func (b *Backends) Fail(err error) {
	if b.Checkpoints != nil {
		b.Checkpoints.worthless.Store(true)
	}
	select {
	case b.Failed <- err:
	default: // an earlier error ends the server
	}
}

// RunUntilFailure calls serve with a context that ends with ctx, or after an error of Fail.
// After such an error RunUntilFailure returns the reason.
func (b *Backends) RunUntilFailure(ctx context.Context, serve func(context.Context) error) error {
	serving, cancel := context.WithCancelCause(ctx)
	defer lifetime.Start(ctx, func(ctx context.Context) {
		select {
		case err := <-b.Failed:
			cancel(fmt.Errorf("%w: start again, so that clients begin again with what it holds now", err))
		case <-ctx.Done():
		}
	})()
	err := serve(serving)
	if cause := context.Cause(serving); cause != nil && ctx.Err() == nil {
		return cause
	}
	return err
}

// Expire drops events that are too old, and returns their bytes.
func (b *Backends) Expire() (bytes int64) {
	for _, backend := range b.All() {
		bytes += backend.Cache.Expire()
	}
	return bytes
}
