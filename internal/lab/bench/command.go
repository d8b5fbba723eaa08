package bench

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/lab/bench/crd"
	"github.com/millrace/millrace/internal/lab/bench/discovery"
	"github.com/millrace/millrace/internal/lab/bench/floor"
	"github.com/millrace/millrace/internal/lab/bench/list"
	"github.com/millrace/millrace/internal/lab/bench/provision"
	"github.com/millrace/millrace/internal/lab/bench/quiet"
	"github.com/millrace/millrace/internal/lab/bench/replica"
	"github.com/millrace/millrace/internal/lab/bench/servers"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/bench/watch"
)

// Config is what the embedding program decides about the bench commands.
type Config = testbed.Program

// NewCommand returns the "bench" command with its subcommands. It expects to
// be mounted directly below the root of Config.Executable.
func NewCommand(cfg Config) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "bench",
		Short:         "Measure what reads and custom resources cost a server",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(list.NewCommand(cfg), watch.NewCommand(cfg), crd.NewCommand(cfg), discovery.NewCommand(cfg),
		replica.NewCommand(cfg), replica.NewTreeCommand(cfg), quiet.NewCommand(cfg), servers.NewCommand(cfg), provision.NewCommand(cfg), floor.NewCommand(), testbed.NewEtcdCommand(), testbed.NewProxyCommand())
	return cmd
}

// RemoveLeftovers removes from a server what interrupted runs have made there, but for the
// objects of "fill". provisioned is the name of the runs of "bench provision".
func RemoveLeftovers(ctx context.Context, server *kubeconfig.Flags, provisioned string) error {
	cfg, err := server.Load("bench")
	if err != nil {
		return err
	}
	t, err := testbed.NewTarget(testbed.TargetConfig{REST: cfg})
	if err != nil {
		return err
	}
	if err := watch.RemoveConfigMaps(ctx, t); err != nil {
		return err
	}
	return provision.Remove(ctx, server, provisioned)
}
