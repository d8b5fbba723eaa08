package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/klog/v2"

	"github.com/millrace/millrace/internal/datadir"
	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/kube"
	"github.com/millrace/millrace/internal/store"
)

// Server is one `millrace serve`.
type Server struct {
	options *Options
	out     io.Writer
	logger  *slog.Logger
	// kubeconfigFits says that the data directory's kubeconfig opens this server.
	kubeconfigFits bool
	// program is what was started, as a person would start it again.
	program string
}

// New makes a server of options that are in order. out receives what a person is to
// read; logs go to standard error as Kubernetes' flags say. It starts nothing.
func New(o *Options, out io.Writer) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Server{options: o, out: out, logger: slog.New(klogHandler()), program: "millrace"}
	if len(os.Args) > 0 {
		s.program = os.Args[0]
	}
	return s, nil
}

// Run serves until the context ends and everything that it began has ended.
func (s *Server) Run(ctx context.Context) error {
	err := s.start(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // told to stop before it was ready
	}
	return err
}

// start serves too, and says of a context that ends early that it ended.
func (s *Server) start(ctx context.Context) error {
	o := s.options
	if err := o.Kube.Apply(); err != nil {
		return err
	}
	if err := o.shutdownDefaults(); err != nil {
		return err
	}
	alone := len(o.Kube.EtcdServers()) == 0
	if alone {
		if err := o.aloneDefaults(); err != nil {
			return err
		}
	}
	var report datadir.Report
	var embedded *store.Embedded
	if s.kubeconfigFits = o.kubeconfigFits(alone); o.makesCredentials(alone) {
		dir, err := datadir.Open(datadir.Config{Path: o.DataDir})
		if err != nil {
			return err
		}
		defer s.closing("data directory", dir.Close)
		if err := s.precheck(dir, alone); err != nil {
			return err
		}
		if report, err = o.useCredentials(dir); err != nil {
			return err
		}
		if alone {
			if embedded, err = s.openEtcd(ctx, dir); err != nil {
				return err
			}
			defer embedded.Close()
			o.Kube.UseEtcd(embedded.Endpoint())
		}
	}
	s.tell(report)
	o.Kube.UseWatchCache(ReadPath(o.ReadPath) == ReadPathKubernetes)
	if embedded == nil {
		return s.serve(ctx, nil)
	}
	return s.serveOver(ctx, embedded)
}

// serveOver serves until the context ends, or the embedded etcd stops by itself.
func (s *Server) serveOver(ctx context.Context, embedded *store.Embedded) error {
	serving, cancel := context.WithCancelCause(ctx)
	defer beneath(ctx, func(ctx context.Context) {
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

// precheck finds what would fail later, while nothing has been written yet.
func (s *Server) precheck(dir *datadir.Dir, alone bool) error {
	if err := s.options.checkPort(); err != nil || !alone {
		return err
	}
	return checkEtcd(dir.Paths().EtcdData)
}

func (s *Server) openEtcd(ctx context.Context, dir *datadir.Dir) (*store.Embedded, error) {
	sockets, err := dir.EtcdSocketDir()
	if err != nil {
		return nil, err
	}
	return store.OpenEmbedded(ctx, store.EmbeddedConfig{
		DataDir:   dir.Paths().EtcdData,
		SocketDir: sockets,
		Logger:    newEtcdLog(dir.Paths().EtcdData),
	})
}

// serve runs Kubernetes' server over an etcd, with the read tier or without.
func (s *Server) serve(ctx context.Context, embedded *store.Embedded) error {
	if ReadPath(s.options.ReadPath) == ReadPathKubernetes {
		server, err := kube.Build(ctx, s.options.Kube, kube.Hooks{})
		if err != nil {
			return s.options.explain(err)
		}
		return s.run(ctx, server)
	}
	setGC(gcLoading)
	etcd := s.options.Kube.Etcd()
	budget := encode.NewBudget(s.options.WireCacheSize.Value())
	b := &backends{
		prefix: etcd.StorageConfig.Prefix, compact: etcd.StorageConfig.CompactionInterval,
		cache: s.options.Cache, embedded: embedded, logger: s.logger,
	}
	b.accounts = s.options.newAccounts(s.logger)
	b.cache.Budget, b.cache.HistoryWindow, b.cache.Logger = budget, s.options.HistoryWindow, s.logger
	defer b.close()
	tier, err := newReadTier(b, budget, s.options.watches())
	if err != nil {
		return err
	}
	lists, err := s.newLists()
	if err != nil {
		return err
	}
	tier.lists = lists
	tier.tier.SetAccounts(lists)
	defer beneath(ctx, lists.Run)()
	// etcd first: what Kubernetes says without it is hard to read.
	if err := s.pingEtcd(ctx, b); err != nil {
		return err
	}
	hooks := tier.hooks()
	hooks.CustomResources.CompiledBytes = cmp.Or(s.options.CompiledBytes, defaultCompiled())
	hooks.CustomResources.ConvertedBytes = hooks.CustomResources.CompiledBytes / 2
	server, err := kube.Build(ctx, s.options.Kube, hooks)
	if err != nil {
		return s.options.explain(err)
	}
	first := strings.Join(etcd.StorageConfig.Transport.ServerList, ",")
	etcdmetrics.SetStorageMonitorGetter(func() ([]etcdmetrics.Monitor, error) { return b.monitors(first), nil })
	if err := tier.serve(server); err != nil {
		return err
	}
	return s.runFed(ctx, tier, server)
}

// pingEtcd opens the main cluster and asks it for its revision.
func (s *Server) pingEtcd(ctx context.Context, b *backends) error {
	if _, err := b.get(s.options.Kube.Etcd().StorageConfig.Transport); err != nil {
		return err
	}
	return b.ping(ctx)
}

// runFed runs the feeds beneath the server: they begin before and end after it.
func (s *Server) runFed(ctx context.Context, tier *readTier, server *kube.Server) error {
	b := tier.backends
	defer beneath(ctx, b.run)()
	if err := b.loaded(ctx); err != nil {
		return fmt.Errorf("load from etcd: %w", err)
	}
	defer beneath(ctx, s.measure(tier, server))()
	trimmer := newTrimmer(mappedFiles(b.embedded), b.expire, tier.rest, tier.tier.Warming)
	// The garbage of the load would stay until well after clients are back.
	trimmer.trim()
	defer beneath(ctx, trimmer.run)()
	defer beneath(ctx, func(ctx context.Context) {
		if server.WaitReady(ctx) == nil {
			tier.tier.Warm(ctx)
		}
	})()
	return s.run(ctx, server)
}

// mappedFiles are the files whose pages are worth giving back.
func mappedFiles(embedded *store.Embedded) []string {
	if embedded == nil {
		return nil
	}
	return []string{embedded.Database()}
}

func (s *Server) run(ctx context.Context, server *kube.Server) error {
	defer beneath(ctx, func(ctx context.Context) {
		if err := server.WaitReady(ctx); err == nil {
			s.welcome()
		}
	})()
	return s.options.explain(server.Run(ctx))
}

// beneath runs something until the returned function is called, which waits for
// its end. The end of ctx alone does not stop it: what a server stands on must
// outlive the server's own shutdown.
func beneath(ctx context.Context, run func(context.Context)) (stop func()) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(running)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (s *Server) closing(what string, release func() error) {
	if err := release(); err != nil {
		klog.ErrorS(err, "Could not close "+what)
	}
}
