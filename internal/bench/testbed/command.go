package testbed

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/bench/render"
)

// Program is what the embedding program decides about the bench commands.
type Program struct {
	// Executable is the binary that is run as "serve", "fill", "bench
	// floor-server" and "bench etcd". Zero value: the running binary.
	Executable string
}

// executable resolves the binary for child processes.
func (c Program) executable() (string, error) {
	if c.Executable != "" {
		return c.Executable, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find executable: %w", err)
	}
	return path, nil
}

// The words of --workloads that every catalogue has.
const (
	// AllWorkloads stands for all that one data set serves, defaults for what is run
	// without --workloads.
	AllWorkloads     = "all"
	DefaultWorkloads = "default"
)

// Streams are where a command writes to.
type Streams struct{ Out, Err io.Writer }

// Report is a report, which a command can print again in another form.
type Report interface {
	Write(to io.Writer, output string) error
}

// Runner is what a command of "bench" does: it measures and reports, or prints a
// report that there is.
type Runner struct {
	// Help lists the workloads, and tells whether that is all that was asked for. Nil
	// is for commands without.
	Help     func() (list string, asked bool)
	Validate func() error
	// From and output are flags, empty makes the report that from is read into.
	From, Output *string
	NewReport    func() Report
	Measure      func(context.Context, Streams) error
}

// Bind lets a command do it.
func (m Runner) Bind(cmd *cobra.Command) {
	cmd.Args, cmd.SilenceUsage = cobra.NoArgs, true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		to := Streams{cmd.OutOrStdout(), cmd.ErrOrStderr()}
		if m.Help != nil {
			if list, asked := m.Help(); asked {
				_, err := io.WriteString(to.Out, list)
				return err
			}
		}
		if err := m.Validate(); err != nil {
			return err
		}
		if *m.From != "" {
			r := m.NewReport()
			if err := render.ReadReport(*m.From, r); err != nil {
				return err
			}
			return r.Write(to.Out, *m.Output)
		}
		ctx, stop := Interruptible(cmd.Context())
		defer stop()
		return m.Measure(ctx, to)
	}
}

// Conclude is the end of a command that has tried to write its report, in which
// some workloads may have failed.
func Conclude(written error, failures int) error {
	if written != nil {
		return written
	}
	if failures > 0 {
		return fmt.Errorf("%d workloads failed, see above", failures)
	}
	return nil
}
