package bench

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Config is what the embedding program decides about the bench commands.
type Config struct {
	// Executable is the binary that is run as "serve", "fill", "bench
	// floor-server" and "bench etcd". Zero value: the running binary.
	Executable string
}

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
	cmd.AddCommand(newListCommand(cfg), newWatchCommand(cfg), newCRDCommand(cfg), newDiscoveryCommand(cfg),
		newFloorCommand(), newEtcdCommand())
	return cmd
}

// executable resolves the binary for child processes.
func (c Config) executable() (string, error) {
	if c.Executable != "" {
		return c.Executable, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find executable: %w", err)
	}
	return path, nil
}

// interruptible returns a context that the first SIGINT, SIGTERM or SIGHUP
// ends. A second one has its default effect and ends the process at once; children
// follow it (see child).
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// The words of --workloads that every catalogue has.
const (
	// everything stands for all that one data set serves, defaults for what is run
	// without --workloads.
	everything = "all"
	defaults   = "default"
)
