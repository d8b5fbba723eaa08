package watch

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// NewCommand returns the command "bench watch".
func NewCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Measure WATCH",
		Long: `Measures what delivering events to many watchers costs a server, how long
events take from the write to the watcher, and the memory of informers that
begin with a watch-list.

The events come from writes of its own: config maps that it creates in the
namespace default, and status patches of pods that fill has made. A span begins
before the write is sent and so contains the write. "net" is CPU less the CPU of
the same writes without watchers.

With --compare it starts millrace with one read path after the other over one data
directory that it fills, and a server whose handlers write the same event from
memory: the floor. With --at it measures a server that runs, and removes its objects
afterwards.

This process and the server have a file open for each connection: ulimit -n must
allow 1,100 open files, and more with --scale.`,
		Example: `  millrace-lab bench watch --compare
  millrace-lab bench watch --compare --workloads=all-h2-20,floor-h2-20,gzip --duration=5s
  millrace-lab bench watch --compare --workloads=one --pod-size=17KB --read-paths=millrace,millrace-encoded,kubernetes
  millrace-lab bench watch --compare --workloads=watchlist --secrets=100 -o json > report.json
  millrace-lab bench watch --at=admin.conf --workloads=names-1000
  millrace-lab bench watch --from report.json -o markdown`,
	}
	testbed.Subcommand{
		Help:     func() (string, bool) { return workloadHelp(), slices.Contains(o.workloads, "help") },
		Validate: o.validate, Formats: formats(),
		From: &o.from, Output: &o.output, NewReport: func() testbed.Report { return &report{} },
		Measure: func(ctx context.Context, to testbed.Streams) error { return execute(ctx, o, to) },
	}.Bind(cmd)
	o.addFlags(cmd.Flags())
	return cmd
}

// execute measures and prints the report. It returns an error if a workload failed.
func execute(ctx context.Context, o *options, to testbed.Streams) error {
	b := &bench{opts: o, progress: testbed.NewProgress(to.Err), report: &report{
		Started: time.Now(), Machine: testbed.ThisMachine(), Plan: o.plan, ExternalEtcd: o.ExternalEtcd,
	}}
	if err := b.compare(ctx); err != nil {
		return err
	}
	b.report.addFailureNotes()
	return testbed.Print(b.report, to.Out, o.output)
}
