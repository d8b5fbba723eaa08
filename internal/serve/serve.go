package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/apiserver/program"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/conn/datadir"
	"github.com/millrace/millrace/internal/feed/etcdserver"
	"github.com/millrace/millrace/internal/tier/lifetime"
	"github.com/millrace/millrace/internal/tier/memory"
	"github.com/millrace/millrace/internal/tier/source"
)

// Server is one `millrace serve`.
type Server struct {
	options *Options
	// out receives what is printed for people. Logs go elsewhere.
	out    io.Writer
	logger *slog.Logger
	// kubeconfigFits is Options.kubeconfigFits. Run sets it.
	kubeconfigFits bool
}

// New checks the options and makes a server. out receives what a person is to read, and logs
// go where Kubernetes' own go. New starts nothing.
func New(o *Options, out io.Writer) (*Server, error) {
	o.SetFlags("serve", o.flags)
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Server{options: o, out: out, logger: program.NewLogger()}, nil
}

// Run serves until the context ends or a part fails, and everything that it started has ended.
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
	if err := o.SetShutdownDefaults(); err != nil {
		return err
	}
	s.options.PrintStart(s.out)
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

// serveWithEmbedded serves until the context ends or the embedded etcd stops by itself.
// If etcd stopped, serveWithEmbedded returns the reason.
func (s *Server) serveWithEmbedded(ctx context.Context, embedded *etcdserver.Etcd) error {
	serving, cancel := context.WithCancelCause(ctx)
	defer lifetime.Start(ctx, func(ctx context.Context) {
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

// checkBeforeStart finds what would fail later, while neither credentials nor etcd's data have
// been written.
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
	o := s.options
	if ReadPath(o.ReadPath) == ReadPathKubernetes {
		server, err := kube.Build(ctx, o.Kube, kube.Hooks{})
		if err != nil {
			return o.Explain(err)
		}
		return o.RunServer(ctx, server, s.printWelcome)
	}
	memory.SetLoadingGCPercent()
	shares := o.MemoryShares(memory.Available())
	b := o.NewBackends(shares, s.logger)
	etcd := s.useEtcd(b, shares, embedded)
	defer b.Close()
	tier, err := tiermount.New(b, shares, o.Watches(), o.NewProofs(s.logger))
	if err != nil {
		return err
	}
	accounts, err := o.NewReadAccounts(nil, s.logger)
	if err != nil {
		return err
	}
	tier.ReadAccounts = accounts
	tier.Tier.SetAccounts(accounts, b.WatchAccounts)
	defer lifetime.Start(ctx, accounts.Run)()
	// The ping comes before Build, whose errors about an etcd that does not answer are
	// hard to read.
	if err := etcd.Ping(ctx, o.Kube.Etcd().StorageConfig.Transport); err != nil {
		return err
	}
	server, err := kube.Build(ctx, o.Kube, tier.Hooks())
	if err != nil {
		return o.Explain(err)
	}
	etcdmetrics.SetStorageMonitorGetter(func() ([]etcdmetrics.Monitor, error) { return etcd.Monitors(), nil })
	if err := tier.SetRoutes(server); err != nil {
		return err
	}
	return b.RunUntilFailure(ctx, func(ctx context.Context) error {
		return o.RunWithFeeds(ctx, program.Run{
			Server: server, Tier: tier, Welcome: s.printWelcome, MappedFiles: mappedFiles(embedded),
			Beside: func(ctx, serving context.Context) {
				defer lifetime.Start(ctx, func(ctx context.Context) { s.runProbe(ctx, tier, server) })()
				s.runOtherServers(ctx, serving, tier, etcd, server)
				<-ctx.Done()
			},
		})
	})
}

// useEtcd makes the backends follow etcd.
func (s *Server) useEtcd(b *source.Backends, shares memory.Shares, embedded *etcdserver.Etcd) *source.Etcd {
	storage := s.options.Kube.Etcd().StorageConfig
	return source.NewEtcd(b, source.EtcdConfig{
		Prefix: storage.Prefix, Main: storage.Transport.ServerList, Compact: storage.CompactionInterval, Embedded: embedded,
		ReplayRevisions: shares.ReplayRevisions, CheckInterval: s.options.CacheCheckInterval,
	})
}

// mappedFiles returns program.Run.MappedFiles. embedded may be nil.
func mappedFiles(embedded *etcdserver.Etcd) []string {
	if embedded == nil {
		return nil
	}
	return []string{embedded.Database()}
}

func (s *Server) closeOrLog(what string, release func() error) {
	if err := release(); err != nil {
		s.logger.Error("Could not close "+what, "err", err)
	}
}
