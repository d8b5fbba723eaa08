package bench

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// streams are where a command writes to.
type streams struct{ out, err io.Writer }

// saved is a report, which a command can print again in another form.
type saved interface {
	write(to io.Writer, output string) error
}

// measuring is what a command of "bench" does: it measures and reports, or prints a
// report that there is.
type measuring struct {
	// help lists the workloads, and tells whether that is all that was asked for. Nil
	// is for commands without.
	help     func() (list string, asked bool)
	validate func() error
	// from and output are flags, empty makes the report that from is read into.
	from, output *string
	empty        func() saved
	measure      func(context.Context, streams) error
}

// by lets a command do it.
func (m measuring) by(cmd *cobra.Command) {
	cmd.Args, cmd.SilenceUsage = cobra.NoArgs, true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		to := streams{cmd.OutOrStdout(), cmd.ErrOrStderr()}
		if m.help != nil {
			if list, asked := m.help(); asked {
				_, err := io.WriteString(to.out, list)
				return err
			}
		}
		if err := m.validate(); err != nil {
			return err
		}
		if *m.from != "" {
			r := m.empty()
			if err := readReport(*m.from, r); err != nil {
				return err
			}
			return r.write(to.out, *m.output)
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		return m.measure(ctx, to)
	}
}

// conclude is the end of a command that has tried to write its report, in which
// some workloads may have failed.
func conclude(written error, failures int) error {
	if written != nil {
		return written
	}
	if failures > 0 {
		return fmt.Errorf("%d workloads failed, see above", failures)
	}
	return nil
}
