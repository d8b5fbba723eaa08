package quiet

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// NewCommand returns the command "bench quiet".
func NewCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "quiet",
		Short: "Measure reads of resources that nobody writes, through replicas",
		Long: `Measures reads without a resource version of resources that nobody writes, while config
maps are written at the upstream: at the upstream itself, at a bare proxy to it, at a
replica that is fed by its API, at one that is fed by its etcd, and at a replica of a
replica.

One client gets a namespace, lists all namespaces, and gets one of many service accounts,
at each front in turn, for each rate of writes. Then, for each front, many clients list the
namespaces once a second, and as many get one namespace. The cost of the upstream is
compared with clients that read at the upstream.

All servers run at the same time, and share this machine with the clients.`,
		Example: `  millrace-lab bench quiet
  millrace-lab bench quiet --write-rate=0,50 --pollers=0
  millrace-lab bench quiet --from quiet.json -o markdown`,
	}
	testbed.Subcommand{
		Validate: o.validate,
		From:     &o.from, Output: &o.output, NewReport: func() testbed.Report { return &report{} },
		Measure: func(ctx context.Context, to testbed.Streams) error { return execute(ctx, o, to) },
	}.Bind(cmd)
	o.addFlags(cmd.Flags())
	return cmd
}

// execute measures and prints the report. It returns an error if a part was not measured.
func execute(ctx context.Context, o *options, to testbed.Streams) error {
	o.ExternalEtcd = true
	b := &bench{opts: o, progress: testbed.NewProgress(to.Err), report: &report{
		Started: time.Now(), Machine: testbed.ThisMachine(), LoadAverage: testbed.LoadAverage(), Plan: o.plan,
	}}
	return testbed.WithTestbed(ctx, testbed.Config{Options: o.Options, Progress: b.progress}, func(bed *testbed.Testbed) error {
		b.bed = bed
		if err := b.run(ctx); err != nil {
			return err
		}
		return testbed.Print(b.report, to.Out, o.output)
	})
}
