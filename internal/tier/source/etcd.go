package source

import (
	"context"
	"fmt"
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
	// The flow-control windows bound what etcd may send before the client reads it, by stream
	// and by connection. They are enough for the pages of a load over a network with a round
	// trip of 10 ms. Without these windows gRPC chooses its own, and sends a ping for whatever
	// arrives to measure the path. That is one of the five system calls of a write.
	streamWindow     = 4 << 20
	connectionWindow = 16 << 20
	// pingTimeout bounds the wait for etcd at start.
	pingTimeout = 20 * time.Second
)

// CheckEtcdFlags is the advice for an etcd that does not answer.
const CheckEtcdFlags = "check that etcd runs, --etcd-servers and --etcd-cafile, --etcd-certfile, --etcd-keyfile"

// EtcdConfig configures an Etcd.
type EtcdConfig struct {
	// Prefix is --etcd-prefix.
	Prefix string
	// Main are the servers of --etcd-servers.
	Main []string
	// Embedded is the etcd in this process. It is nil if there is none.
	Embedded *etcdserver.Etcd
	// Compact is the interval of compaction. 0 compacts nothing: other servers do.
	Compact time.Duration
	// ReplayRevisions is memory.Shares.ReplayRevisions.
	ReplayRevisions int64
	// CheckInterval is program.Options.CacheCheckInterval. 0 checks nothing.
	CheckInterval time.Duration
}

// Etcd is the Source of objects in etcd clusters: one, or more with --etcd-servers-overrides.
// Each cluster has one client, one cache and one feed.
type Etcd struct {
	cfg EtcdConfig
	b   *Backends
	// othersReadyAt is when another server was last known to take clients. Nil means that none
	// is known.
	othersReadyAt atomic.Pointer[time.Time]

	mu struct {
		sync.Mutex
		// byServers has the key of Backend.Servers.
		byServers map[string]*cluster
		// byResource has the clusters of the resources that Of was called for.
		byResource map[schema.GroupResource]*cluster
		// scrubMetrics is nil before the first scrubber is made.
		scrubMetrics *scrub.Metrics
	}
}

var _ Source = (*Etcd)(nil)

// cluster is an etcd cluster.
type cluster struct {
	Backend
	// run runs the feed until the context ends.
	run func(context.Context) error
	// close stops the compactor, and closes the client unless it is the embedded etcd's.
	close func()
}

// NewEtcd makes an Etcd, and sets b.Source to it.
func NewEtcd(b *Backends, cfg EtcdConfig) *Etcd {
	e := &Etcd{cfg: cfg, b: b}
	b.Source = e
	return e
}

// Depth implements Source.
func (e *Etcd) Depth() int {
	if e.b.ReadOnly {
		return 1
	}
	return 0
}

// Of implements Source.
func (e *Etcd) Of(config *storagebackend.ConfigForResource) (*storage.Backend, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	opened, err := e.getLocked(config.Transport)
	if err != nil {
		return nil, err
	}
	if e.mu.byResource == nil {
		e.mu.byResource = map[schema.GroupResource]*cluster{}
	}
	e.mu.byResource[config.GroupResource] = opened
	return &opened.Backend.Backend, nil
}

// open opens a cluster, unless it is open.
func (e *Etcd) open(t storagebackend.TransportConfig) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err := e.getLocked(t)
	return err
}

// getLocked returns a cluster. It opens the cluster on first use.
func (e *Etcd) getLocked(t storagebackend.TransportConfig) (*cluster, error) {
	servers := strings.Join(t.ServerList, ",")
	if opened := e.mu.byServers[servers]; opened != nil {
		return opened, nil
	}
	opened, err := e.openLocked(t, servers)
	if err != nil {
		return nil, err
	}
	if e.mu.byServers == nil {
		e.mu.byServers = map[string]*cluster{}
	}
	e.mu.byServers[servers] = opened
	return opened, nil
}

// openLocked makes the client, the cache, the feed and the scrubber of a cluster. It does not
// wait for the cluster.
func (e *Etcd) openLocked(t storagebackend.TransportConfig, servers string) (*cluster, error) {
	opened := &cluster{Backend: Backend{Servers: servers}, close: func() {}}
	streams := &etcdfeed.WatchStreams{}
	if e.cfg.Embedded != nil && servers == e.cfg.Embedded.Endpoint() {
		opened.Client = e.cfg.Embedded.Client()
	} else {
		client, err := dial(t, streams)
		if err != nil {
			return nil, fmt.Errorf("open client of etcd %s: %w", servers, err)
		}
		opened.Client = client
		opened.close = func() { _ = client.Close() }
	}
	opened.Client.KV = etcd3.NewETCDLatencyTracker(opened.Client.KV)
	opened.Cache, opened.MaxStaleness = cache.New(e.b.Cache), e.b.MaxStaleness
	prefix := storage.EtcdPrefix(e.cfg.Prefix, "")
	follows := etcdfeed.NewFeed(etcdfeed.FeedConfig{
		Client: opened.Client.Client, Prefix: prefix, Sink: opened.Cache, Logger: e.b.Logger,
		HistoryRevisions: e.cfg.ReplayRevisions,
		Stream:           utilfeature.DefaultFeatureGate.Enabled(features.EtcdRangeStream),
		Account:          e.b.WatchAccounts.AddFeed(prefix, t.ServerList),
		Checkpoint:       e.b.Checkpoints.ofEtcd(servers, prefix),
		WatchStreams:     streams,
	})
	kept := etcdKept(servers, prefix, follows)
	opened.Kept = func() KeptBackend { return kept }
	opened.Feed, opened.run, opened.Consistent = follows, follows.Run, cache.NewConsistent(opened.Cache, follows)
	opened.Cluster = func() string { return fmt.Sprintf("%x", follows.ClusterID()) }
	var err error
	if opened.Scrubber, err = e.newScrubberLocked(&opened.Backend); err != nil {
		opened.close()
		return nil, err
	}
	if e.cfg.Compact > 0 || e.b.ReadOnly {
		compactor := etcd3.StartCompactorPerEndpoint(opened.Client.Client, e.cfg.Compact)
		opened.Compactor = compactor
		release := opened.close
		opened.close = func() { compactor.Stop(); release() }
	}
	return opened, nil
}

// dial makes a client of an etcd cluster, as Kubernetes' storage does, with larger flow-control
// windows. The caller closes the client.
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

// clusters returns all clusters that are open.
func (e *Etcd) clusters() []*cluster {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.mu.byServers))
}

// All implements Source.
func (e *Etcd) All() []*Backend {
	var all []*Backend
	for _, c := range e.clusters() {
		all = append(all, &c.Backend)
	}
	return all
}

// Run implements Source.
func (e *Etcd) Run(ctx context.Context) {
	var feeds sync.WaitGroup
	for _, c := range e.clusters() {
		feeds.Go(func() {
			if err := c.run(ctx); ctx.Err() == nil {
				e.b.Fail(fmt.Errorf("etcd %s: %w", c.Servers, err))
			}
		})
	}
	feeds.Wait()
}

// BrokenSince implements Source.
func (e *Etcd) BrokenSince(stored schema.GroupResource) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if opened := e.mu.byResource[stored]; opened != nil {
		return opened.Feed.BrokenSince()
	}
	return time.Time{}
}

// Ping opens a cluster, and asks every open cluster for its revision.
func (e *Etcd) Ping(ctx context.Context, t storagebackend.TransportConfig) error {
	if err := e.open(t); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	for _, backend := range e.All() {
		if _, err := backend.Feed.Revision(ctx); err != nil {
			return fmt.Errorf("etcd at %s does not answer within %v (%w): %s", backend.Servers, pingTimeout, err, CheckEtcdFlags)
		}
	}
	return nil
}

// WaitLoaded implements Source.
func (e *Etcd) WaitLoaded(ctx context.Context) error {
	for _, backend := range e.All() {
		if err := backend.Cache.Progress().Wait(ctx, 1); err != nil {
			return err
		}
	}
	return nil
}

// Healthy implements Source: all clusters must be followed.
func (e *Etcd) Healthy() error {
	for _, backend := range e.All() {
		if err := backend.Feed.Healthy(); err != nil {
			return fmt.Errorf("etcd %s: %w", backend.Servers, err)
		}
	}
	return nil
}

// Close implements Source.
func (e *Etcd) Close() {
	for _, c := range e.clusters() {
		c.close()
	}
}
