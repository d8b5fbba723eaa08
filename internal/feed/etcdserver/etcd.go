package etcdserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Config says where an embedded etcd keeps its data.
type Config struct {
	// DataDir holds the write-ahead log and the database.
	DataDir string
	// SocketDir holds the unix sockets that etcd listens on. Other users must not have
	// access to it: a client that connects can read every secret.
	SocketDir string
	// QuotaBytes bounds the database. Zero means 8 GiB, the largest size that etcd
	// recommends.
	QuotaBytes int64
	// StartTimeout bounds the time until etcd serves. Zero means a minute.
	StartTimeout time.Duration
	// Logger receives etcd's own messages from Warn upwards. Nil discards them.
	Logger zapcore.Core
}

// ErrInUse says that another server has the data directory open.
var ErrInUse = errors.New("data directory is in use by another server; stop it first")

// Etcd is an etcd server in this process. It has no network listener.
type Etcd struct {
	etcd *embed.Etcd
	// lock is a file lock on the data directory. etcd has one of its own, but waits for it
	// without end.
	lock     *fileutil.LockedFile
	client   *kubernetes.Client
	endpoint string
	dataDir  string
}

const (
	defaultQuotaBytes   = 8 << 30
	defaultStartTimeout = time.Minute
	// snapshotCount is the largest number of entries that are replayed after a kill.
	// snapshotCatchUp entries are kept after a snapshot.
	snapshotCount   = 5000
	snapshotCatchUp = 100
	// maxRequestBytes is etcd's default of 1.5 MiB, which Kubernetes documents as the
	// largest size of an object.
	maxRequestBytes = 3 << 19
)

// Open starts etcd and returns once it serves. Close releases the data directory.
func Open(ctx context.Context, cfg Config) (*Etcd, error) {
	if cfg.QuotaBytes == 0 {
		cfg.QuotaBytes = defaultQuotaBytes
	}
	if cfg.StartTimeout == 0 {
		cfg.StartTimeout = defaultStartTimeout
	}
	etcdConfig := cfg.etcd()
	for _, dir := range []string{cfg.DataDir, cfg.SocketDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("create etcd directory: %w", err)
		}
	}
	lock, err := fileutil.TryLockFile(filepath.Join(cfg.DataDir, "millrace.lock"), os.O_WRONLY|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		err = ErrInUse
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", cfg.DataDir, err)
	}
	server, err := startEtcd(ctx, etcdConfig, cfg.StartTimeout)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("start embedded etcd in %s: %w", cfg.DataDir, err)
	}
	client := &kubernetes.Client{Client: v3client.New(server.Server)}
	client.Kubernetes = client
	return &Etcd{etcd: server, lock: lock, client: client, endpoint: etcdConfig.ListenClientUrls[0].String(), dataDir: cfg.DataDir}, nil
}

// startEtcd returns once etcd serves. The caller has locked the data directory.
func startEtcd(ctx context.Context, cfg *embed.Config, timeout time.Duration) (*embed.Etcd, error) {
	for _, u := range slices.Concat(cfg.ListenClientUrls, cfg.ListenPeerUrls, cfg.ListenClientHttpUrls) {
		// A killed process does not remove its sockets. Because the directory is locked, no
		// process listens on them any more.
		if err := os.Remove(u.Host + u.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("remove stale etcd socket: %w", err)
		}
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-server.Server.ReadyNotify():
		return server, nil
	case err = <-server.Err():
	case <-timer.C:
		err = fmt.Errorf("not ready after %v", timeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	// Close would wait until etcd serves, which may never happen.
	server.Server.HardStop()
	return nil, err
}

func (cfg Config) etcd() *embed.Config {
	c := embed.NewConfig()
	socket := func(name string) []url.URL {
		return []url.URL{{Scheme: "unix", Path: filepath.Join(cfg.SocketDir, name)}}
	}
	c.Name = "millrace"
	c.Dir = cfg.DataDir
	c.ListenClientUrls = socket("client.sock")
	// The socket's path is the URL's host. As the URL's path, etcd would bind an abstract
	// socket, to which every local user may connect.
	c.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(cfg.SocketDir, "peer.sock")}}
	// etcd warns when one socket serves both gRPC and health over HTTP.
	c.ListenClientHttpUrls = socket("http.sock")
	// No peer dials the only member. Its advertised URLs stay etcd's defaults: they must
	// have a host, and must not change when the directory moves.
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.QuotaBackendBytes = cfg.QuotaBytes
	c.MaxRequestBytes = maxRequestBytes
	c.EnableGRPCGateway = false
	// etcd keeps the raft log in memory for members that lag. There are none.
	c.SnapshotCount, c.SnapshotCatchUpEntries = snapshotCount, snapshotCatchUp
	c.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	core := cfg.Logger
	if core == nil {
		core = zapcore.NewNopCore()
	}
	c.LogLevel = "warn"
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(core, zap.IncreaseLevel(zapcore.WarnLevel)))
	return c
}

// Endpoint returns a URL for users that need a client of their own. It is a unix socket,
// accessible to this user alone.
func (e *Etcd) Endpoint() string { return e.endpoint }

// Database returns the file that etcd maps into this process's memory.
func (e *Etcd) Database() string { return filepath.Join(e.dataDir, "member", "snap", "db") }

// Client returns a client that calls the server within the process. It lives until Close;
// its users do not close it.
func (e *Etcd) Client() *kubernetes.Client { return e.client }

// Err delivers an error when etcd stops by itself.
func (e *Etcd) Err() <-chan error { return e.etcd.Err() }

// Close stops etcd and waits until the database is on disk.
func (e *Etcd) Close() {
	// The client has no connection: its context is all that is closed.
	_ = e.client.Close()
	e.etcd.Close()
	<-e.etcd.Server.StopNotify()
	// An error does not matter: the end of the process releases the lock too.
	_ = e.lock.Close()
}
