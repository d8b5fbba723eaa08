package crd

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// NewCommand returns the command "bench crd".
func NewCommand() *cobra.Command {
	o := &Options{}
	cmd := &cobra.Command{
		Use:   "crd",
		Short: "Measure custom resource definitions",
		Long: `Measures what custom resource definitions cost a server: memory and goroutines
after a start, after definitions were installed, after a restart, after OpenAPI was
read, after requests for custom objects, and after all was deleted; the time and CPU
of installing and deleting definitions; the time of a restart; and LISTs and writes of
custom objects, the first ones of a kind apart, later ones in rounds over all kinds.

It starts millrace itself, over an empty data directory: with --compare with
one read path after the other, otherwise with the first. With --at it measures a
running server, which it does not restart. The definitions come from "fill" and are
installed without a client's rate limit.

Memory and goroutines are read when the server has been left alone for --rest
and was idle at the end of it. "All listed" is when aggregated discovery has
every resource, "answered" when the objects of --samples of them can be listed
too. The LISTs and writes go to kinds that no client has requested since the
restart, and writes to other kinds than LISTs.`,
		Example: `  millrace-lab bench crd --compare --crds 2000 --groups 200
  millrace-lab bench crd --compare --external-etcd --crds 190 --groups 190 --properties 5000
  millrace-lab bench crd --crds 50 --groups 10 --rest 5s
  millrace-lab bench crd --from report.json -o markdown
  millrace-lab bench crd --from report.json -o svg > report.svg`,
	}
	testbed.Subcommand{
		Validate: o.Validate,
		From:     &o.From, Output: &o.Output, NewReport: func() testbed.Report { return &report{} },
		Measure: func(ctx context.Context, to testbed.Streams) error { return execute(ctx, o, to) },
	}.Bind(cmd)
	o.AddFlags(cmd.Flags())
	return cmd
}

// execute measures and prints the report, also after an interrupt. It returns an error if a
// server failed, or the cause of the interrupt.
func execute(ctx context.Context, o *Options, to testbed.Streams) error {
	report := &report{Started: time.Now(), Machine: testbed.ThisMachine(), Plan: o.Plan, Data: o.Data, ExternalEtcd: o.ExternalEtcd}
	err := o.EachReadPath(ctx, testbed.NewProgress(to.Err), func(f *Fixture) Measurement {
		return &bench{Fixture: f, report: report, result: &serverReport{Name: f.ReadPath}}
	})
	if len(report.Servers) == 0 {
		return err
	}
	report.addNotes()
	return cmp.Or(err, testbed.Print(report, to.Out, o.Output))
}
