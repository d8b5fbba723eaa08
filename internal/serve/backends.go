package serve

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

// backends are where resources come from. They are etcd clusters: one, or more with
// --etcd-servers-overrides. Each has one client, one cache and one feed. Or they are
// resources of an API server: each has one cache and one feed. All fields but mu are set
// before the first call and never change.
type backends struct {
	// prefix is --etcd-prefix.
	prefix string
	// cache is the configuration of each cluster's cache.
	cache cache.Config
	// embedded is nil when all clusters are others'.
	embedded *etcdserver.Etcd
	// compact is the interval of compaction. 0 leaves it to others.
	compact time.Duration
	// readOnly says that nothing is written, so compact is 0. The compactor then only
	// follows what others compact.
	readOnly bool
	// maxStaleness is Backend.MaxStaleness of all.
	maxStaleness time.Duration
	// replayRevisions is memory.Shares'.
	replayRevisions int64
	watchAccounts   *slo.Watches
	logger          *slog.Logger
	// api is nil if resources come from etcd.
	api *apiSource
	// checkpoints is nil if nothing is kept on disk.
	checkpoints *checkpoints
	// checkInterval is Options.CacheCheckInterval.
	checkInterval time.Duration
	// othersReadyAt is when another server was last known to take clients. Nil means that none
	// is known.
	othersReadyAt atomic.Pointer[time.Time]
	// failed receives the first error that leaves the caches without a meaning.
	failed chan error

	mu struct {
		sync.Mutex
		// byServers has the key of backend.servers.
		byServers map[string]*backend
		// scrubMetrics is nil before the first scrubber is made.
		scrubMetrics *scrub.Metrics
	}
}

// depth is how many replicas events come through, this one included; 0 at a server.
func (b *backends) depth() int {
	switch {
	case !b.readOnly:
		return 0
	case b.api == nil:
		return 1
	}
	return b.api.depth()
}

// heardAt is when a feed of an API server was last told something. It is zero for others.
func (b *backend) heardAt() time.Time {
	if follows, ok := b.feed.(*resourceFeed); ok {
		return follows.HeardAt()
	}
	return time.Time{}
}

// feed follows the source of a cache.
type feed interface {
	cache.RevisionSource
	Healthy() error
	// BrokenSince returns when the feed ceased to follow its source, zero if it follows or
	// has not followed yet.
	BrokenSince() time.Time
}

// backend is one etcd cluster, or one resource of an API server.
type backend struct {
	storage.Backend
	feed feed
	// run runs the feed until the context ends. It is nil for a resource of an API server,
	// whose feed belongs to the apiSource.
	run func(context.Context) error
	// servers are the cluster's URLs, separated by commas, or the URL of the resource.
	servers string
	// scrubber checks the cache. It is nil if nothing is checked, and for a resource of an
	// API server.
	scrubber *scrub.Scrubber
	// cluster returns the id of the etcd cluster. It is nil for a resource of an API server.
	cluster func() string
	// kept is set if checkpoints are written.
	kept keptBackend
	// tried is closed when the first load has succeeded or failed. It is nil if the server
	// is not ready before it has succeeded.
	tried <-chan struct{}
	// close releases the client.
	close func()
}

// of returns the backend of a resource. It implements storage.Decorator.Backend.
func (b *backends) of(config *storagebackend.ConfigForResource) (*storage.Backend, error) {
	if b.api != nil {
		return b.api.open(feedKey{GroupResource: config.GroupResource}), nil
	}
	return b.get(config.Transport)
}

// get returns the backend of a cluster, and opens it on first use.
func (b *backends) get(t storagebackend.TransportConfig) (*storage.Backend, error) {
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
		b.mu.byServers = map[string]*backend{}
	}
	b.mu.byServers[servers] = opened
	return &opened.Backend, nil
}

// open makes the client, the cache and the feed of a cluster. It does not wait for
// the cluster. The caller holds the lock.
func (b *backends) open(t storagebackend.TransportConfig, servers string) (*backend, error) {
	opened := &backend{servers: servers, close: func() {}}
	streams := &etcdfeed.WatchStreams{}
	if b.embedded != nil && servers == b.embedded.Endpoint() {
		opened.Client = b.embedded.Client()
	} else {
		client, err := dial(t, streams)
		if err != nil {
			return nil, fmt.Errorf("open client of etcd %s: %w", servers, err)
		}
		opened.Client = client
		opened.close = func() { _ = client.Close() }
	}
	opened.Client.KV = etcd3.NewETCDLatencyTracker(opened.Client.KV)
	opened.Cache, opened.MaxStaleness = cache.New(b.cache), b.maxStaleness
	prefix := storage.EtcdPrefix(b.prefix, "")
	follows := etcdfeed.NewFeed(etcdfeed.FeedConfig{
		Client: opened.Client.Client, Prefix: prefix, Sink: opened.Cache, Logger: b.logger,
		HistoryRevisions: b.replayRevisions,
		Stream:           utilfeature.DefaultFeatureGate.Enabled(features.EtcdRangeStream),
		Account:          b.watchAccounts.AddFeed(prefix, t.ServerList),
		Checkpoint:       b.checkpoints.ofEtcd(servers, prefix),
		WatchStreams:     streams,
	})
	opened.kept = etcdKept(servers, prefix, follows)
	opened.feed, opened.run, opened.Consistent = follows, follows.Run, cache.NewConsistent(opened.Cache, follows)
	opened.cluster = func() string { return fmt.Sprintf("%x", follows.ClusterID()) }
	var err error
	if opened.scrubber, err = b.newScrubberLocked(opened); err != nil {
		return nil, err
	}
	if b.compact > 0 || b.readOnly {
		compactor := etcd3.StartCompactorPerEndpoint(opened.Client.Client, b.compact)
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

// all returns the backends that are open, in no order.
func (b *backends) all() []*backend {
	if b.api != nil {
		return b.api.started()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.mu.byServers))
}

// run follows all clusters until the context ends.
func (b *backends) run(ctx context.Context) {
	if b.api != nil {
		b.api.run(ctx)
		return
	}
	var feeds sync.WaitGroup
	for _, backend := range b.all() {
		feeds.Go(func() {
			if err := backend.run(ctx); ctx.Err() == nil {
				b.fail(fmt.Errorf("etcd %s: %w", backend.servers, err))
			}
		})
	}
	feeds.Wait()
}

// fail ends the server: what the caches hold means nothing any more.
func (b *backends) fail(err error) {
	if b.checkpoints != nil {
		b.checkpoints.worthless.Store(true)
	}
	select {
	case b.failed <- err:
	default: // an earlier error ends the server
	}
}

// runUntilFailure runs serve until the context ends, or until what the caches hold means
// nothing any more. In the latter case it returns the reason.
func (b *backends) runUntilFailure(ctx context.Context, serve func(context.Context) error) error {
	serving, cancel := context.WithCancelCause(ctx)
	defer runUntilStopped(ctx, func(ctx context.Context) {
		select {
		case err := <-b.failed:
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

// brokenSince returns when the feed of a resource ceased to follow its source, zero if it
// follows. stored names the resource as it is stored.
func (b *backends) brokenSince(stored schema.GroupResource) (since time.Time) {
	if b.api != nil {
		return b.api.brokenSince(stored)
	}
	for _, backend := range b.all() {
		if at := backend.feed.BrokenSince(); since.IsZero() || !at.IsZero() && at.Before(since) {
			since = at
		}
	}
	return since
}

// ping makes sure that every etcd cluster answers.
func (b *backends) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	for _, backend := range b.all() {
		if _, err := backend.feed.Revision(ctx); err != nil {
			return fmt.Errorf("etcd at %s does not answer within %v (%w): %s", backend.servers, pingTimeout, err, checkEtcdFlags)
		}
	}
	return nil
}

// waitLoaded waits until every cache has loaded its cluster.
func (b *backends) waitLoaded(ctx context.Context) error {
	for _, backend := range b.all() {
		if err := backend.waitLoaded(ctx); err != nil {
			return err
		}
	}
	return nil
}

// waitLoaded waits until the cache has loaded its source. A resource that is only followed
// because an earlier run did may fail, and its reads are passed on then.
func (b *backend) waitLoaded(ctx context.Context) error {
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

// healthy returns an error if a feed does not follow its cluster, or if no feed follows
// the API server.
func (b *backends) healthy() error {
	if b.api != nil {
		return b.api.healthy()
	}
	for _, backend := range b.all() {
		if err := backend.feed.Healthy(); err != nil {
			return fmt.Errorf("etcd %s: %w", backend.servers, err)
		}
	}
	return nil
}

// expire drops events that are too old, and returns their bytes.
func (b *backends) expire() (bytes int64) {
	for _, backend := range b.all() {
		bytes += backend.Cache.Expire()
	}
	return bytes
}

// close releases all clients. Nothing may use the backends any more.
func (b *backends) close() {
	for _, backend := range b.all() {
		backend.close()
	}
}
