package testbed

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/interrupt"
	"github.com/millrace/millrace/internal/tool/render"
)

// Names in --workloads that stand for several workloads of any catalogue.
const (
	// AllWorkloads stands for the workloads that can share one data set.
	AllWorkloads = "all"
	// DefaultWorkloads stands for the workloads that run without --workloads.
	DefaultWorkloads = "default"
)

// Streams are the outputs of a command: Out for its report, Err for its progress.
type Streams struct{ Out, Err io.Writer }

// Report is what a subcommand measured.
type Report interface {
	// Write prints the report in a format of --output.
	Write(to io.Writer, format string) error
	// FailureCount returns how many parts were not measured.
	FailureCount() int
}

// Subcommand is what all subcommands of "bench" have in common: they print a catalogue, or
// they validate the flags, and then print a saved report or measure.
type Subcommand struct {
	// Help returns the catalogue of workloads, and whether the user asked for it. It
	// is nil in subcommands that have no catalogue.
	Help func() (catalogue string, requested bool)
	// Validate checks the flags, before anything is started or read.
	Validate func() error
	// From and Output point to the values of the flags --from and --output, which Bind adds.
	From, Output *string
	// Formats are the values of --output. Nil stands for render.Formats().
	Formats []string
	// NewReport returns the empty report that the file of --from is decoded into.
	NewReport func() Report
	// Measure measures and writes the report. Its context ends with an interrupt.
	Measure func(context.Context, Streams) error
}

// Bind sets cmd.RunE to run m, and adds the flags --output and --from.
func (m Subcommand) Bind(cmd *cobra.Command) {
	cmd.Args = cobra.NoArgs
	cmd.SilenceUsage = true
	if m.Formats == nil {
		m.Formats = render.Formats()
	}
	formats := strings.Join(m.Formats, ", ")
	cmd.Flags().StringVarP(m.Output, "output", "o", render.Terminal, "one of "+formats)
	cmd.Flags().StringVar(m.From, "from", "", "print the report in this file, as -o json wrote it, and measure nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		to := Streams{cmd.OutOrStdout(), cmd.ErrOrStderr()}
		if m.Help != nil {
			if catalogue, requested := m.Help(); requested {
				_, err := io.WriteString(to.Out, catalogue)
				return err
			}
		}
		if !slices.Contains(m.Formats, *m.Output) {
			return fmt.Errorf("-o %s: choose one of %s", *m.Output, formats)
		}
		if err := m.Validate(); err != nil {
			return err
		}
		if *m.From != "" {
			r := m.NewReport()
			if err := render.ReadReport(*m.From, r); err != nil {
				return err
			}
			return Print(r, to.Out, *m.Output)
		}
		ctx, stop := interrupt.Context(cmd.Context())
		defer stop()
		return m.Measure(ctx, to)
	}
}

// Print prints a report, which may be a saved one. It returns the error with which the command
// ends: something could not be printed, or was not measured.
func Print(r Report, to io.Writer, format string) error {
	if err := r.Write(to, format); err != nil {
		return err
	}
	if n := r.FailureCount(); n > 0 {
		return fmt.Errorf("%s failed, see above", display.Plural(n, "workload"))
	}
	return nil
}
