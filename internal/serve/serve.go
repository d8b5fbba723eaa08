package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/conn/datadir"
	"github.com/millrace/millrace/internal/feed/etcdserver"
	"github.com/millrace/millrace/internal/tier/lifetime"
	"github.com/millrace/millrace/internal/tier/memory"
	"github.com/millrace/millrace/internal/tier/source"
	"github.com/millrace/millrace/internal/wire/encode"
)

// Server is one `millrace serve`.
type Server struct {
	options *Options
	// out receives what is printed for people. Logs go elsewhere.
	out    io.Writer
	logger *slog.Logger
	// kubeconfigFits says that the data directory's kubeconfigs open this server.
	kubeconfigFits bool
	// program is the name that the process was started by, for advice.
	program string
	// welcome prints how to use the server once it is ready.
	welcome func()
}

// runnable is a server of package kube: kube.Server or kube.Replica.
type runnable interface {
	WaitReady(context.Context) error
	Run(context.Context) error
	Loopback() *rest.Config
}

// New checks the options and makes a server. out receives what a person is to
// read; logs go to standard error as Kubernetes' flags say. New starts nothing.
func New(o *Options, out io.Writer) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Server{options: o, out: out, logger: NewLogger(), program: "millrace"}
	s.welcome = s.printWelcome
	if len(os.Args) > 0 {
		s.program = os.Args[0]
	}
	return s, nil
}

// Run serves until the context ends and everything that it started has ended.
func (s *Server) Run(ctx context.Context) error {
	err := s.runUntilEnd(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // it was stopped before it was ready
	}
	return err
}

// runUntilEnd is Run, but may return the error of a context that ended early.
func (s *Server) runUntilEnd(ctx context.Context) error {
	o := s.options
	if err := o.Kube.Apply(); err != nil {
		return err
	}
	if err := o.setShutdownDefaults(); err != nil {
		return err
	}
	standalone := len(o.Kube.EtcdServers()) == 0
	if standalone {
		if err := o.setStandaloneDefaults(); err != nil {
			return err
		}
	}
	var report datadir.Report
	var embedded *etcdserver.Etcd
	if s.kubeconfigFits = o.kubeconfigFits(standalone); o.makesCredentials(standalone) {
		dir, err := datadir.Open(datadir.Config{Path: o.DataDir})
		if err != nil {
			return err
		}
		defer s.closeOrLog("data directory", dir.Close)
		if err := s.checkBeforeStart(dir, standalone); err != nil {
			return err
		}
		if report, err = o.useCredentials(dir); err != nil {
			return err
		}
		if standalone {
			if embedded, err = s.openEtcd(ctx, dir); err != nil {
				return err
			}
			defer embedded.Close()
			o.Kube.UseEtcd(embedded.Endpoint())
		}
	}
	s.logCredentials(report)
	o.Kube.UseWatchCache(ReadPath(o.ReadPath) == ReadPathKubernetes)
	if embedded == nil {
		return s.serve(ctx, nil)
	}
	return s.serveWithEmbedded(ctx, embedded)
}

// serveWithEmbedded serves until the context ends or the embedded etcd stops by
// itself. In the latter case it returns the reason.
func (s *Server) serveWithEmbedded(ctx context.Context, embedded *etcdserver.Etcd) error {
	serving, cancel := context.WithCancelCause(ctx)
	defer lifetime.RunUntilStopped(ctx, func(ctx context.Context) {
		select {
		case err := <-embedded.Err():
			cancel(fmt.Errorf("the embedded etcd stopped by itself (%w): see what it logged, and start again", err))
		case <-ctx.Done():
		}
	})()
	err := s.serve(serving, embedded)
	if cause := context.Cause(serving); cause != nil && ctx.Err() == nil {
		return cause
	}
	return err
}

// checkBeforeStart finds what would fail later, while nothing has been written yet.
func (s *Server) checkBeforeStart(dir *datadir.Dir, standalone bool) error {
	if err := s.options.checkPort(); err != nil || !standalone {
		return err
	}
	return etcdserver.Check(dir.Paths().EtcdData)
}

func (s *Server) openEtcd(ctx context.Context, dir *datadir.Dir) (*etcdserver.Etcd, error) {
	sockets, err := dir.EtcdSocketDir()
	if err != nil {
		return nil, err
	}
	return etcdserver.Open(ctx, etcdserver.Config{
		DataDir:   dir.Paths().EtcdData,
		SocketDir: sockets,
		Logger:    etcdserver.NewLogger(dir.Paths().EtcdData, s.logger),
	})
}

// serve runs Kubernetes' server over an etcd, with the read tier or without it.
func (s *Server) serve(ctx context.Context, embedded *etcdserver.Etcd) error {
	if ReadPath(s.options.ReadPath) == ReadPathKubernetes {
		server, err := kube.Build(ctx, s.options.Kube, kube.Hooks{})
		if err != nil {
			return s.options.explain(err)
		}
		return s.run(ctx, server)
	}
	memory.PaceLoad()
	shares := s.options.memoryShares(memory.Available())
	b := s.newBackends(shares, embedded)
	defer b.Close()
	tier, err := tiermount.New(b, shares, s.options.watches(), s.options.newProofs(s.logger))
	if err != nil {
		return err
	}
	accounts, err := s.newReadAccounts(nil)
	if err != nil {
		return err
	}
	tier.ReadAccounts = accounts
	tier.Tier.SetAccounts(accounts)
	defer lifetime.RunUntilStopped(ctx, accounts.Run)()
	// The ping comes before Build, whose errors about an etcd that does not answer are
	// hard to read.
	if err := s.pingEtcd(ctx, b); err != nil {
		return err
	}
	server, err := kube.Build(ctx, s.options.Kube, tier.Hooks())
	if err != nil {
		return s.options.explain(err)
	}
	main := strings.Join(s.options.Kube.Etcd().StorageConfig.Transport.ServerList, ",")
	etcdmetrics.SetStorageMonitorGetter(func() ([]etcdmetrics.Monitor, error) { return b.Monitors(main), nil })
	if err := tier.SetRoutes(server); err != nil {
		return err
	}
	return b.RunUntilFailure(ctx, func(ctx context.Context) error { return s.runWithFeeds(ctx, tier, server) })
}

// newBackends makes the backends, of which none is open yet.
func (s *Server) newBackends(shares memory.Shares, embedded *etcdserver.Etcd) *source.Backends {
	etcd := s.options.Kube.Etcd()
	cfg := s.options.Cache
	cfg.Budget, cfg.HistoryBytes = encode.NewBudget(shares.WireCache), shares.History
	cfg.HistoryWindow, cfg.Logger, cfg.Panics = s.options.HistoryWindow, s.logger, panics.New(s.logger)
	return &source.Backends{
		Prefix: etcd.StorageConfig.Prefix, Compact: etcd.StorageConfig.CompactionInterval,
		Cache: cfg, Embedded: embedded, ReplayRevisions: shares.ReplayRevisions,
		CheckInterval: s.options.CacheCheckInterval, WatchAccounts: s.options.newWatchAccounts(s.logger), Logger: s.logger, Failed: make(chan error, 1),
	}
}

// pingEtcd opens the main cluster and asks it for its revision.
func (s *Server) pingEtcd(ctx context.Context, b *source.Backends) error {
	if _, err := b.Get(s.options.Kube.Etcd().StorageConfig.Transport); err != nil {
		return err
	}
	return b.Ping(ctx)
}

// runWithFeeds runs the feeds and all that depends on them, then the server. The
// feeds have loaded before the server starts, and end after it.
func (s *Server) runWithFeeds(ctx context.Context, tier *tiermount.ReadTier, server runnable) error {
	b := tier.Backends
	defer lifetime.RunUntilStopped(ctx, b.Run)()
	if err := b.WaitLoaded(ctx); err != nil {
		return fmt.Errorf("load objects: %w", err)
	}
	if b.Checkpoints != nil {
		defer lifetime.RunUntilStopped(ctx, func(ctx context.Context) { b.Checkpoints.Run(ctx, b.All) })()
	}
	defer lifetime.RunUntilStopped(ctx, b.Scrub)()
	defer lifetime.RunUntilStopped(ctx, s.runMeasurements(tier, server))()
	trimmer := memory.NewTrimmer(memory.TrimmerConfig{
		Files: mappedFiles(b.Embedded), Expire: b.Expire, Release: tier.ReleaseTransient, Warming: tier.Tier.Warming,
		CollectorHeadroom: tier.Shares.CollectorHeadroom, Logger: s.logger,
	})
	// Without this trim the garbage of the load would stay until long after the
	// clients are back.
	trimmer.Trim()
	defer lifetime.RunUntilStopped(ctx, trimmer.Run)()
	defer lifetime.RunUntilStopped(ctx, func(ctx context.Context) {
		if server.WaitReady(ctx) == nil && s.options.EncodeAhead {
			tier.Tier.Warm(ctx)
		}
	})()
	defer lifetime.RunUntilStopped(ctx, s.runOtherServers(ctx, tier, server))()
	return s.run(ctx, server)
}

// mappedFiles returns the files whose pages are worth giving back.
func mappedFiles(embedded *etcdserver.Etcd) []string {
	if embedded == nil {
		return nil
	}
	return []string{embedded.Database()}
}

// run runs Kubernetes' server, and prints how to use it once it is ready.
func (s *Server) run(ctx context.Context, server runnable) error {
	defer lifetime.RunUntilStopped(ctx, func(ctx context.Context) {
		if err := server.WaitReady(ctx); err == nil {
			s.welcome()
		}
	})()
	return s.options.explain(server.Run(ctx))
}

func (s *Server) closeOrLog(what string, release func() error) {
	if err := release(); err != nil {
		s.logger.Error("Could not close "+what, "err", err)
	}
}
