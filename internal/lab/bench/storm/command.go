package storm

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// NewCommand returns the command "bench storm".
func NewCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "storm",
		Short: "Measure the start storm: all clients at once at a server that was just started",
		Long: `Measures the minute that decides how many machines a cluster needs: a server has just been
started, and all clients come to it at once.

The clients are those of --nodes hollow nodes: kubelets, kube-proxies and --agents, each
with a connection and a user of its own, and with client-go's back-off. In the first
storm all clients are new. Then they run for --rest, the server is killed and restarted,
and the clients return: they resume their watches, or relist where the server refuses.

Each storm is measured from the start of the server's process until all informers are
synced: when /readyz answers, how many informers are synced over time, the server's CPU
and memory, what it refuses, and how long a bystander waits for a GET.

Clients, servers and etcd share this machine.`,
		Example: `  millrace-lab bench storm --kube-apiserver=bin/kube-apiserver
  millrace-lab bench storm --nodes=100 --agents=network --rest=10s
  millrace-lab bench storm --from storm.json -o svg`,
	}
	testbed.Subcommand{
		Validate: o.validate,
		From:     &o.from, Output: &o.output, NewReport: func() testbed.Report { return &report{} },
		Measure: func(ctx context.Context, to testbed.Streams) error { return execute(ctx, o, to) },
	}.Bind(cmd)
	o.addFlags(cmd.Flags())
	return cmd
}

// execute measures and prints the report. It returns an error if a storm was not measured.
func execute(ctx context.Context, o *options, to testbed.Streams) error {
	b := &bench{opts: o, progress: testbed.NewProgress(to.Err), report: &report{
		Started: time.Now(), Machine: testbed.ThisMachine(), LoadAverage: testbed.LoadAverage(), Data: o.fill, Plan: o.plan,
	}}
	return testbed.WithTestbed(ctx, testbed.Config{Options: o.Options, Progress: b.progress}, func(bed *testbed.Testbed) error {
		b.bed = bed
		if err := b.run(ctx); err != nil {
			return err
		}
		return testbed.Print(b.report, to.Out, o.output)
	})
}
