package source

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/feed/etcdserver"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/lifetime"
	"github.com/millrace/millrace/internal/tier/scrub"
	"github.com/millrace/millrace/internal/tier/storage"
)

const (
	// The keepalive and dial times are kube-apiserver's for its own etcd clients.
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
	dialTimeout      = 20 * time.Second
	// The windows bound what etcd may send before it is read, by stream and by
	// connection. They are enough for the pages of a load over 10 ms of network. With
	// windows of its own choice gRPC sends a ping for whatever arrives, to measure the
	// path. That is one of the five system calls of a write.
	streamWindow     = 4 << 20
	connectionWindow = 16 << 20
	// pingTimeout bounds the wait for etcd at start.
	pingTimeout = 20 * time.Second
)

// CheckEtcdFlags is the advice for an etcd that does not answer.
const CheckEtcdFlags = "check that etcd runs, --etcd-servers and --etcd-cafile, --etcd-certfile, --etcd-keyfile"

// Backends are where resources come from. They are etcd clusters: one, or more with
// --etcd-servers-overrides. Each has one client, one cache and one feed. Or they are
// resources of an API server: each has one cache and one feed. All fields but mu are set
// before the first call and never change.
type Backends struct {
	// Prefix is --etcd-prefix.
	Prefix string
	// Cache is the configuration of each cluster's cache.
	Cache cache.Config
	// Embedded is nil when all clusters are others'.
	Embedded *etcdserver.Etcd
	// Compact is the interval of compaction. 0 leaves it to others.
	Compact time.Duration
	// ReadOnly says that nothing is written, so compact is 0. The compactor then only
	// follows what others compact.
	ReadOnly bool
	// MaxStaleness is Backend.MaxStaleness of all.
	MaxStaleness time.Duration
	// ReplayRevisions is memory.Shares'.
	ReplayRevisions int64
	WatchAccounts   *slo.Watches
	Logger          *slog.Logger
	// API is nil if resources come from etcd.
	API *API
	// Checkpoints is nil if nothing is kept on disk.
	Checkpoints *Checkpoints
	// CheckInterval is Options.CacheCheckInterval.
	CheckInterval time.Duration
	// othersReadyAt is when another server was last known to take clients. Nil means that none
	// is known.
	othersReadyAt atomic.Pointer[time.Time]
	// Failed receives the first error that leaves the caches without a meaning.
	Failed chan error

	mu struct {
		sync.Mutex
		// byServers has the key of Backend.Servers.
		byServers map[string]*Backend
		// scrubMetrics is nil before the first scrubber is made.
		scrubMetrics *scrub.Metrics
	}
}

// Depth is how many replicas events come through, this one included; 0 at a server.
func (b *Backends) Depth() int {
	switch {
	case !b.ReadOnly:
		return 0
	case b.API == nil:
		return 1
	}
	return b.API.depth()
}

// HeardAt is when a feed of an API server was last told something. It is zero for others.
func (b *Backend) HeardAt() time.Time {
	if follows, ok := b.Feed.(*ResourceFeed); ok {
		return follows.HeardAt()
	}
	return time.Time{}
}

// Feed follows the source of a cache.
type Feed interface {
	cache.RevisionSource
	Healthy() error
	// BrokenSince returns when the feed ceased to follow its source, zero if it follows or
	// has not followed yet.
	BrokenSince() time.Time
}

// Backend is one etcd cluster, or one resource of an API server.
type Backend struct {
	storage.Backend
	Feed Feed
	// run runs the feed until the context ends. It is nil for a resource of an API server,
	// whose feed belongs to the API.
	run func(context.Context) error
	// Servers are the cluster's URLs, separated by commas, or the URL of the resource.
	Servers string
	// Scrubber checks the cache. It is nil if nothing is checked, and for a resource of an
	// API server.
	Scrubber *scrub.Scrubber
	// Cluster returns the id of the etcd cluster. It is nil for a resource of an API server.
	Cluster func() string
	// Kept is set if checkpoints are written.
	Kept KeptBackend
	// tried is closed when the first load has succeeded or failed. It is nil if the server
	// is not ready before it has succeeded.
	tried <-chan struct{}
	// close releases the client.
	close func()
}

// Of returns the backend of a resource. It implements storage.Decorator.Backend.
func (b *Backends) Of(config *storagebackend.ConfigForResource) (*storage.Backend, error) {
	if b.API != nil {
		return b.API.open(FeedKey{GroupResource: config.GroupResource}), nil
	}
	return b.Get(config.Transport)
}

// Get returns the backend of a cluster, and opens it on first use.
func (b *Backends) Get(t storagebackend.TransportConfig) (*storage.Backend, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	servers := strings.Join(t.ServerList, ",")
	if opened := b.mu.byServers[servers]; opened != nil {
		return &opened.Backend, nil
	}
	opened, err := b.open(t, servers)
	if err != nil {
		return nil, err
	}
	if b.mu.byServers == nil {
		b.mu.byServers = map[string]*Backend{}
	}
	b.mu.byServers[servers] = opened
	return &opened.Backend, nil
}

// open makes the client, the cache and the feed of a cluster. It does not wait for
// the cluster. The caller holds the lock.
func (b *Backends) open(t storagebackend.TransportConfig, servers string) (*Backend, error) {
	opened := &Backend{Servers: servers, close: func() {}}
	streams := &etcdfeed.WatchStreams{}
	if b.Embedded != nil && servers == b.Embedded.Endpoint() {
		opened.Client = b.Embedded.Client()
	} else {
		client, err := dial(t, streams)
		if err != nil {
			return nil, fmt.Errorf("open client of etcd %s: %w", servers, err)
		}
		opened.Client = client
		opened.close = func() { _ = client.Close() }
	}
	opened.Client.KV = etcd3.NewETCDLatencyTracker(opened.Client.KV)
	opened.Cache, opened.MaxStaleness = cache.New(b.Cache), b.MaxStaleness
	prefix := storage.EtcdPrefix(b.Prefix, "")
	follows := etcdfeed.NewFeed(etcdfeed.FeedConfig{
		Client: opened.Client.Client, Prefix: prefix, Sink: opened.Cache, Logger: b.Logger,
		HistoryRevisions: b.ReplayRevisions,
		Stream:           utilfeature.DefaultFeatureGate.Enabled(features.EtcdRangeStream),
		Account:          b.WatchAccounts.AddFeed(prefix, t.ServerList),
		Checkpoint:       b.Checkpoints.ofEtcd(servers, prefix),
		WatchStreams:     streams,
	})
	opened.Kept = etcdKept(servers, prefix, follows)
	opened.Feed, opened.run, opened.Consistent = follows, follows.Run, cache.NewConsistent(opened.Cache, follows)
	opened.Cluster = func() string { return fmt.Sprintf("%x", follows.ClusterID()) }
	var err error
	if opened.Scrubber, err = b.newScrubberLocked(opened); err != nil {
		return nil, err
	}
	if b.Compact > 0 || b.ReadOnly {
		compactor := etcd3.StartCompactorPerEndpoint(opened.Client.Client, b.Compact)
		opened.Compactor = compactor
		release := opened.close
		opened.close = func() { compactor.Stop(); release() }
	}
	return opened, nil
}

// dial makes a client like kube-apiserver's own. It does not wait for a
// connection. streams counts the client's watches.
//
// Upstream: k8s.io/apiserver/pkg/storage/storagebackend/factory.newETCD3Client; compare at each upgrade.
func dial(t storagebackend.TransportConfig, streams *etcdfeed.WatchStreams) (*kubernetes.Client, error) {
	cfg := clientv3.Config{
		Endpoints:            t.ServerList,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepaliveTime,
		DialKeepAliveTimeout: keepaliveTimeout,
		DialOptions: []grpc.DialOption{
			grpc.WithStaticStreamWindowSize(streamWindow),
			grpc.WithStaticConnWindowSize(connectionWindow),
			streams.DialOption(),
		},
	}
	if t.CertFile != "" || t.KeyFile != "" || t.TrustedCAFile != "" {
		info := transport.TLSInfo{CertFile: t.CertFile, KeyFile: t.KeyFile, TrustedCAFile: t.TrustedCAFile}
		tls, err := info.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("read etcd certificates: %w", err)
		}
		cfg.TLS = tls
	}
	if t.EgressLookup != nil {
		dialer, err := t.EgressLookup(egressselector.Etcd.AsNetworkContext())
		if err != nil {
			return nil, fmt.Errorf("find egress to etcd: %w", err)
		}
		if dialer != nil {
			cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				if u, err := url.Parse(addr); err == nil && u.Host != "" {
					addr = u.Host
				}
				return dialer(ctx, "tcp", addr)
			}))
		}
	}
	return kubernetes.New(cfg)
}

// All returns the backends that are open, in no order.
func (b *Backends) All() []*Backend {
	if b.API != nil {
		return b.API.started()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.mu.byServers))
}

// Run follows all clusters until the context ends.
func (b *Backends) Run(ctx context.Context) {
	if b.API != nil {
		b.API.run(ctx)
		return
	}
	var feeds sync.WaitGroup
	for _, backend := range b.All() {
		feeds.Go(func() {
			if err := backend.run(ctx); ctx.Err() == nil {
				b.fail(fmt.Errorf("etcd %s: %w", backend.Servers, err))
			}
		})
	}
	feeds.Wait()
}

// fail ends the server: what the caches hold means nothing any more.
func (b *Backends) fail(err error) {
	if b.Checkpoints != nil {
		b.Checkpoints.worthless.Store(true)
	}
	select {
	case b.Failed <- err:
	default: // an earlier error ends the server
	}
}

// RunUntilFailure runs serve until the context ends, or until what the caches hold means
// nothing any more. In the latter case it returns the reason.
func (b *Backends) RunUntilFailure(ctx context.Context, serve func(context.Context) error) error {
	serving, cancel := context.WithCancelCause(ctx)
	defer lifetime.RunUntilStopped(ctx, func(ctx context.Context) {
		select {
		case err := <-b.Failed:
			cancel(fmt.Errorf("%w: start again, so that clients begin anew with what it holds now", err))
		case <-ctx.Done():
		}
	})()
	err := serve(serving)
	if cause := context.Cause(serving); cause != nil && ctx.Err() == nil {
		return cause
	}
	return err
}

// BrokenSince returns when the feed of a resource ceased to follow its source, zero if it
// follows. stored names the resource as it is stored.
func (b *Backends) BrokenSince(stored schema.GroupResource) (since time.Time) {
	if b.API != nil {
		return b.API.brokenSince(stored)
	}
	for _, backend := range b.All() {
		if at := backend.Feed.BrokenSince(); since.IsZero() || !at.IsZero() && at.Before(since) {
			since = at
		}
	}
	return since
}

// Ping makes sure that every etcd cluster answers.
func (b *Backends) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	for _, backend := range b.All() {
		if _, err := backend.Feed.Revision(ctx); err != nil {
			return fmt.Errorf("etcd at %s does not answer within %v (%w): %s", backend.Servers, pingTimeout, err, CheckEtcdFlags)
		}
	}
	return nil
}

// WaitLoaded waits until every cache has loaded its cluster.
func (b *Backends) WaitLoaded(ctx context.Context) error {
	for _, backend := range b.All() {
		if err := backend.waitLoaded(ctx); err != nil {
			return err
		}
	}
	return nil
}

// waitLoaded waits until the cache has loaded its source. A resource that is only followed
// because an earlier run did may fail, and its reads are passed on then.
func (b *Backend) waitLoaded(ctx context.Context) error {
	if b.tried == nil {
		return b.Cache.Progress().Wait(ctx, 1)
	}
	select {
	case <-b.tried:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Healthy returns an error if a feed does not follow its cluster, or if no feed follows
// the API server.
func (b *Backends) Healthy() error {
	if b.API != nil {
		return b.API.healthy()
	}
	for _, backend := range b.All() {
		if err := backend.Feed.Healthy(); err != nil {
			return fmt.Errorf("etcd %s: %w", backend.Servers, err)
		}
	}
	return nil
}

// Expire drops events that are too old, and returns their bytes.
func (b *Backends) Expire() (bytes int64) {
	for _, backend := range b.All() {
		bytes += backend.Cache.Expire()
	}
	return bytes
}

// Close releases all clients. Nothing may use the backends any more.
func (b *Backends) Close() {
	for _, backend := range b.All() {
		backend.close()
	}
}
