package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/slo"
	"github.com/millrace/millrace/internal/storage"
	"github.com/millrace/millrace/internal/store"
)

const (
	// The times are kube-apiserver's for its own etcd clients.
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
	dialTimeout      = 20 * time.Second
	// What etcd may send before it is read, of a stream and of all: enough for pages of
	// a load over 10 ms of network. Without such bounds gRPC finds its own, up to 16 MiB,
	// by a ping each time that something comes: one of five system calls of a write.
	streamWindow     = 4 << 20
	connectionWindow = 16 << 20
	// reachTimeout bounds the wait for etcd at start.
	reachTimeout = 20 * time.Second
	// A start replays a revision for each share of the memory, up to the feed's
	// default: the embedded etcd reads them all at once. With large objects this is
	// a fifth of the memory (docs/bench/history.md).
	replayShare = 96 << 10
	maxReplay   = 50_000
)

// backends are the etcd clusters that resources are stored in: one, or more
// with --etcd-servers-overrides. Each has one client, one cache and one feed.
type backends struct {
	prefix   string
	cache    cache.Config
	embedded *store.Embedded
	compact  time.Duration
	accounts *slo.Watches
	logger   *slog.Logger

	mu struct {
		sync.Mutex
		byServers map[string]*backend
	}
}

type backend struct {
	storage.Backend
	feed    *store.Feed
	servers string
	// close releases the client.
	close func()
}

// get returns the backend of a cluster, opening it on first use. It implements
// storage.Decorator.Backend.
func (b *backends) get(t storagebackend.TransportConfig) (*storage.Backend, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.Join(t.ServerList, ",")
	if known := b.mu.byServers[key]; known != nil {
		return &known.Backend, nil
	}
	opened, err := b.open(t, key)
	if err != nil {
		return nil, err
	}
	if b.mu.byServers == nil {
		b.mu.byServers = map[string]*backend{}
	}
	b.mu.byServers[key] = opened
	return &opened.Backend, nil
}

func (b *backends) open(t storagebackend.TransportConfig, servers string) (*backend, error) {
	opened := &backend{servers: servers, close: func() {}}
	if b.embedded != nil && servers == b.embedded.Endpoint() {
		opened.Client = b.embedded.Client()
	} else {
		client, err := dial(t)
		if err != nil {
			return nil, fmt.Errorf("open client of etcd %s: %w", servers, err)
		}
		opened.Client = client
		opened.close = func() { _ = client.Close() }
	}
	opened.Client.KV = etcd3.NewETCDLatencyTracker(opened.Client.KV)
	opened.Cache = cache.New(b.cache)
	prefix := storage.EtcdPrefix(b.prefix, "")
	opened.feed = store.NewFeed(store.FeedConfig{
		Client: opened.Client.Client, Prefix: prefix, Sink: opened.Cache, Logger: b.logger,
		HistoryRevisions: min(memory()/replayShare, maxReplay),
		Account:          b.accounts.AddFeed(prefix, t.ServerList),
	})
	opened.Consistent = cache.NewConsistent(opened.Cache, opened.feed)
	if b.compact > 0 {
		compactor := etcd3.StartCompactorPerEndpoint(opened.Client.Client, b.compact)
		opened.Compactor = compactor
		release := opened.close
		opened.close = func() { compactor.Stop(); release() }
	}
	return opened, nil
}

// dial makes a client with the properties of kube-apiserver's. It does not wait
// for a connection.
func dial(t storagebackend.TransportConfig) (*kubernetes.Client, error) {
	cfg := clientv3.Config{
		Endpoints:            t.ServerList,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepaliveTime,
		DialKeepAliveTimeout: keepaliveTimeout,
		DialOptions: []grpc.DialOption{
			grpc.WithStaticStreamWindowSize(streamWindow),
			grpc.WithStaticConnWindowSize(connectionWindow),
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

func (b *backends) all() []*backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*backend, 0, len(b.mu.byServers))
	for _, known := range b.mu.byServers {
		all = append(all, known)
	}
	return all
}

// run follows all clusters until the context ends.
func (b *backends) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, known := range b.all() {
		running.Go(func() {
			// It ends with the context's error and no other.
			_ = known.feed.Run(ctx)
		})
	}
	running.Wait()
}

// ping makes sure that every cluster answers.
func (b *backends) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for _, known := range b.all() {
		if _, err := known.feed.Revision(ctx); err != nil {
			return fmt.Errorf("etcd at %s does not answer within %v (%w): %s", known.servers, reachTimeout, err, checkEtcdFlags)
		}
	}
	return nil
}

// loaded waits until every cache holds what its etcd held at the beginning.
func (b *backends) loaded(ctx context.Context) error {
	for _, known := range b.all() {
		if err := known.Cache.Progress().Wait(ctx, 1); err != nil {
			return err
		}
	}
	return nil
}

// healthy says whether every feed follows its etcd.
func (b *backends) healthy() error {
	for _, known := range b.all() {
		if err := known.feed.Healthy(); err != nil {
			return fmt.Errorf("etcd %s: %w", known.servers, err)
		}
	}
	return nil
}

// expire drops events that are too old, and returns their bytes.
func (b *backends) expire() (bytes int64) {
	for _, known := range b.all() {
		bytes += known.Cache.Expire()
	}
	return bytes
}

func (b *backends) close() {
	for _, known := range b.all() {
		known.close()
	}
}
