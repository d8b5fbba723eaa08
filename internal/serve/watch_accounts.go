package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/tier/lifetime"
)

func (o *Options) addSLOFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.WatchSLO, "watch-slo", o.WatchSLO, "How long 99 of 100 events of watches may take from etcd to the client's connection, with exceptions by resource, such as 1s,pods=500ms,deployments.apps=2s.")
	fs.DurationVar(&o.WatchProbe, "watch-probe", o.WatchProbe, "How often this server writes a Lease of its own in kube-system and watches it through its own front door, to time the whole way of an event. 0 is never.")
}

func (o *Options) validateSLO() error {
	if _, err := slo.ParseObjectives(o.WatchSLO); err != nil {
		return fmt.Errorf("--watch-slo: %w", err)
	}
	if o.WatchProbe < 0 || o.WatchProbe > 0 && o.WatchProbe < minProbe {
		return fmt.Errorf("--watch-probe=%v is too often: give 0 to have none, or at least %v", o.WatchProbe, minProbe)
	}
	return nil
}

// minProbe is the shortest period of the probe, which keeps it from being a load.
const minProbe = 100 * time.Millisecond

// newWatchAccounts makes the accounts of all watches. The options are valid.
func (o *Options) newWatchAccounts(logger *slog.Logger) *slo.Watches {
	objectives, _ := slo.ParseObjectives(o.WatchSLO)
	return slo.NewWatches(slo.Config{Objectives: objectives, Logger: logger})
}

// runMeasurements returns a function that runs the accounts of watches, and the
// probe if there is one.
func (s *Server) runMeasurements(tier *tiermount.ReadTier, server runnable) func(context.Context) {
	return func(ctx context.Context) {
		accounts := tier.Backends.WatchAccounts
		if s.options.WatchProbe > 0 {
			defer lifetime.RunUntilStopped(ctx, func(ctx context.Context) {
				if server.WaitReady(ctx) != nil {
					return
				}
				p := probe{config: server.Loopback(), period: s.options.WatchProbe, accounts: accounts}
				if err := p.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
					s.logger.Error("The watch probe ended", "err", err)
				}
			})()
		}
		_ = accounts.Run(ctx) // it returns the context's error and no other
	}
}
