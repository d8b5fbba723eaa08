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
	"github.com/millrace/millrace/internal/lab/bench/storm"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/bench/watch"
)

// NewCommand returns the "bench" command with its subcommands. It expects to be mounted
// directly below the root of this program.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "bench",
		Short:         "Measure what reads and custom resources cost a server",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(list.NewCommand(), watch.NewCommand(), crd.NewCommand(), discovery.NewCommand(),
		replica.NewCommand(), replica.NewTreeCommand(), quiet.NewCommand(), servers.NewCommand(), storm.NewCommand(),
		provision.NewCommand(), floor.NewCommand(), testbed.NewProxyCommand())
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
