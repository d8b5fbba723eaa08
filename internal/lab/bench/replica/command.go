package replica

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// NewCommand returns the command "bench replica".
func NewCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "replica",
		Short: "Measure a fleet of informers through a replica",
		Long: `Measures what informers of ten resources cost an API server when they read there,
and when they read through a replica: CPU, memory, watches and bytes of the
upstream; CPU and memory of the replica; and the time from a write at the
upstream to its event at the client.

Each client has one connection, with an informer of each of ten resources: pods,
nodes, namespaces, services, endpoint slices, config maps, secrets, deployments,
replica sets and daemon sets. So 200 informers are 20 clients. All of them begin
at once, with a watch-list, while writes go on.

It starts an etcd, and then an upstream for each setup. Informers read at the
upstream ("direct"), or at a replica that is fed by the upstream ("replica-api") or
by etcd ("replica-etcd"); and, to compare CPU for each event, at "millrace serve"
("serve"). Ten informers read directly first: one for each resource.

An informer that receives an event twice or not at all is an error.`,
		Example: `  millrace-lab bench replica --kube-apiserver=bin/kube-apiserver
  millrace-lab bench replica --informers=200 --setups=direct,replica-api --duration=5s
  millrace-lab bench replica --from report.json -o markdown`,
	}
	testbed.Subcommand{
		Validate: o.validate,
		From:     &o.from, Output: &o.output, NewReport: func() testbed.Report { return &report{} },
		Measure: func(ctx context.Context, to testbed.Streams) error {
			r := &report{}
			return execute(ctx, o, to, r, r)
		},
	}.Bind(cmd)
	o.addFlags(cmd.Flags())
	return cmd
}

// execute measures, adds the results to r, and prints printed, which is r or contains it. It returns
// an error if a setup failed.
func execute(ctx context.Context, o *options, to testbed.Streams, r *report, printed testbed.Report) error {
	o.ExternalEtcd = true
	r.Started, r.Machine, r.Plan = time.Now(), testbed.ThisMachine(), o.plan
	b := &bench{opts: o, progress: testbed.NewProgress(to.Err), writes: newWrites(o.plan.Objects), report: r}
	return testbed.WithTestbed(ctx, testbed.Config{Options: o.Options, Progress: b.progress}, func(bed *testbed.Testbed) error {
		b.bed = bed
		if err := b.run(ctx); err != nil {
			return err
		}
		return testbed.Print(printed, to.Out, o.output)
	})
}
