package provision

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// NewCommand returns the command "bench provision".
func NewCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "provision",
		Short: "Measure pods from creation to running, with scheduler, controllers and hollow nodes",
		Long: `Measures pods from their creation until they run, as watchers of all pods see it.

Deployments are made, or pods. Kubernetes' controller manager and scheduler, which are in
this binary, make the pods and bind them to hollow nodes, whose kubelets report them
ready. For each step the report has p50, p95 and p99, and it has the time from each write
to its delivery to each watcher, and what that cost the server: CPU, memory, bytes, requests.

Each path has a server and an etcd of its own: Millrace, a stock server, and a replica of
a stock server, at which all programs read and write. With --kubeconfig only the hollow
nodes are started: the cluster's own scheduler and controllers do the work, or, in a
cluster that has none, the components of millrace (--own-components).

--slo says what must be reached. The exit code is 1 if it is not.`,
		Example: `  # side by side, 1,000 pods on 100 nodes
  millrace-lab bench provision --kube-apiserver=bin/kube-apiserver

  # is a server fast enough?
  millrace-lab bench provision --paths=millrace --slo 'watch p99<1s,provision p95<15s'

  # a cluster that exists, with agents on each node
  millrace-lab bench provision --kubeconfig=admin.conf --nodes=1000 --agents=network,exporter
  millrace-lab bench provision --kubeconfig=admin.conf --delete    # after a run that was killed

  millrace-lab bench provision --from report.json -o markdown`,
	}
	testbed.Subcommand{
		Validate: o.validate,
		From:     &o.from, Output: &o.output, NewReport: func() testbed.Report { return &report{page: o.page} },
		Measure: func(ctx context.Context, to testbed.Streams) error { return execute(ctx, o, to) },
	}.Bind(cmd)
	o.addFlags(cmd.Flags())
	return cmd
}

// execute measures and prints the report, or removes objects for --delete. It returns an error if a
// path failed, or if an objective was missed.
func execute(ctx context.Context, o *options, to testbed.Streams) error {
	if o.Stock != "" { // fail before the measurement takes minutes
		if _, err := exec.LookPath(o.Stock); err != nil {
			return fmt.Errorf("--kube-apiserver: %w: build it with make bin/kube-apiserver", err)
		}
	}
	b := &bench{opts: o, progress: testbed.NewProgress(to.Err)}
	if o.remove {
		return b.clean(ctx)
	}
	b.report = &report{Started: time.Now(), Machine: testbed.ThisMachine(), Plan: o.plan, page: o.page}
	b.report.Plan.ComponentQPS = componentQPS
	if o.PodsOf == podsOfPods {
		b.report.Plan.PodsPerDeployment = 0
	}
	if err := b.run(ctx); err != nil {
		return err
	}
	return testbed.Print(b.report, to.Out, o.output)
}
