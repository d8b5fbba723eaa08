package list

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// NewCommand returns the command "bench list".
func NewCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Measure LIST and GET",
		Long: `Measures what LIST and GET requests cost a server.

With --compare it starts millrace with one read path after the other over one data
directory that it fills, and a server that writes the same bytes from memory: the
floor. With --external-etcd both read paths serve out of one etcd in a process of
its own. With --at it measures a running server, with objects that it fills in, or
with --pods=0 the objects that the server has.`,
		Example: `  millrace-lab bench list --at=admin.conf --pods=0 --workloads=pods-json,pod-get
  millrace-lab bench list --compare --nodes 1000 --pods 10000 -o json > report.json
  millrace-lab bench list --compare --external-etcd --workloads=default,list-rss
  millrace-lab bench list --compare --external-etcd --workloads=list-stalled
  millrace-lab bench list --compare --external-etcd --cold --workloads=pods-json,pods-protobuf
  millrace-lab bench list --compare --external-etcd --cold --cold-readers=64 --workloads=pods-json
  millrace-lab bench list --from report.json -o svg > report.svg`,
	}
	testbed.Subcommand{
		Help:     func() (string, bool) { return workloadHelp(), slices.Contains(o.workloads, "help") },
		Validate: func() error { return o.validate(cmd.Flags().Changed) },
		From:     &o.from, Output: &o.output, NewReport: func() testbed.Report { return &report{} },
		Measure: func(ctx context.Context, to testbed.Streams) error { return execute(ctx, o, to) },
	}.Bind(cmd)
	o.addFlags(cmd.Flags())
	return cmd
}

// execute measures and prints the report. It returns an error if a workload failed.
func execute(ctx context.Context, o *options, to testbed.Streams) error {
	b := &bench{opts: o, progress: testbed.NewProgress(to.Err), report: newReport(o)}
	if err := b.compare(ctx); err != nil {
		return err
	}
	b.report.addNotes()
	return testbed.Print(b.report, to.Out, o.output)
}

// newReport returns a report without results.
func newReport(o *options) *report {
	r := &report{
		Started: time.Now(), Machine: testbed.ThisMachine(), Protocol: "HTTP/2",
		ResourceVersions: o.resourceVersions, Plan: o.plan, ExternalEtcd: o.ExternalEtcd,
		Cold: o.cold, ColdReaders: o.coldReaders, ColdAfter: o.coldAfter,
	}
	if o.http1 {
		r.Protocol = "HTTP/1.1"
	}
	if o.plan.Requests > 0 {
		r.Plan.Duration = 0
	}
	return r
}
