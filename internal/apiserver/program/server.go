package program

import (
	"context"
	"fmt"
	"log/slog"

	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/millrace/millrace/internal/account/cputime"
	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/tier/lifetime"
	"github.com/millrace/millrace/internal/tier/memory"
	"github.com/millrace/millrace/internal/tier/source"
	"github.com/millrace/millrace/internal/wire/encode"
)

// Server is Kubernetes' server in this process: kube.Server or kube.Replica.
type Server interface {
	WaitReady(context.Context) error
	Run(context.Context) error
	Loopback() *rest.Config
}

// NewBackends makes the backends, which have no source yet. The options must be valid.
func (o *Options) NewBackends(shares memory.Shares, logger *slog.Logger) *source.Backends {
	cfg := o.Cache
	cfg.Budget, cfg.HistoryBytes = encode.NewBudget(shares.WireCache), shares.History
	cfg.HistoryWindow, cfg.Logger, cfg.Panics = o.HistoryWindow, logger, panics.New(logger)
	objectives, _ := slo.ParseObjectives(o.WatchSLO)
	return &source.Backends{
		Cache: cfg, WatchAccounts: slo.NewWatches(slo.Config{Objectives: objectives, Logger: logger}), Logger: logger, Failed: make(chan error, 1),
	}
}

// NewReadAccounts makes the accounts of GETs and LISTs, and registers their metrics.
// budgets may be nil. The caller must call Run.
func (o *Options) NewReadAccounts(budgets *usage.Budgets, logger *slog.Logger) (*usage.Accounts, error) {
	accounts := usage.NewAccounts(usage.Config{PacePercent: o.RelistPercent, ProcessCPU: cputime.Reader(), Budgets: budgets, Logger: logger})
	if err := legacyregistry.CustomRegister(accounts.Collector()); err != nil {
		return nil, fmt.Errorf("register metrics of lists: %w", err)
	}
	return accounts, nil
}

// Run is how RunWithFeeds runs a server. Only Server and Tier are needed.
type Run struct {
	Server Server
	Tier   *tiermount.ReadTier
	// Loaded is called once caches are loaded. An error ends the run.
	Loaded func(context.Context) error
	// Welcome is called once the server is ready.
	Welcome func()
	// Beside runs beside the server until ctx ends, which is when the server has ended. serving
	// ends before, when the server begins to end.
	Beside func(ctx, serving context.Context)
	// MappedFiles are memory.TrimmerConfig.Files.
	MappedFiles []string
}

// RunWithFeeds runs the feeds and all that depends on them, then the server. The
// feeds have loaded before the server starts, and end after it.
func (o *Options) RunWithFeeds(ctx context.Context, r Run) error {
	b, tier := r.Tier.Backends, r.Tier
	defer lifetime.Start(ctx, b.Run)()
	if err := b.WaitLoaded(ctx); err != nil {
		return fmt.Errorf("load objects: %w", err)
	}
	if r.Loaded != nil {
		if err := r.Loaded(ctx); err != nil {
			return err
		}
	}
	if b.Checkpoints != nil {
		defer lifetime.Start(ctx, func(ctx context.Context) { b.Checkpoints.Run(ctx, b.All) })()
	}
	defer lifetime.Start(ctx, b.RunScrubbers)()
	defer lifetime.Start(ctx, func(ctx context.Context) {
		_ = b.WatchAccounts.Run(ctx) // it returns the context's error and no other
	})()
	trimmer := memory.NewTrimmer(memory.TrimmerConfig{
		Files: r.MappedFiles, Expire: b.Expire, Release: tier.ReleaseTransient, Warming: tier.Tier.Warming,
		CollectorHeadroom: tier.Shares.CollectorHeadroom, Logger: b.Logger,
	})
	// Without this trim the garbage of the load would stay until long after the
	// clients are back.
	trimmer.Trim()
	defer lifetime.Start(ctx, trimmer.Run)()
	defer lifetime.Start(ctx, func(ctx context.Context) {
		if r.Server.WaitReady(ctx) == nil && o.EncodeAhead {
			tier.Tier.Warm(ctx)
		}
	})()
	if r.Beside != nil {
		serving := ctx
		defer lifetime.Start(ctx, func(ctx context.Context) { r.Beside(ctx, serving) })()
	}
	return o.RunServer(ctx, r.Server, r.Welcome)
}

// RunServer runs Kubernetes' server, and calls welcome once it is ready.
func (o *Options) RunServer(ctx context.Context, server Server, welcome func()) error {
	defer lifetime.Start(ctx, func(ctx context.Context) {
		if server.WaitReady(ctx) == nil && welcome != nil {
			welcome()
		}
	})()
	return o.Explain(server.Run(ctx))
}
