package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// options are the flags of "bench servers".
type options struct {
	testbed.Options
	servers, replicas []int
	fill              testbed.FillConfig
	plan              plan
	output, from      string
}

// plan says how much load a workload gets.
type plan struct {
	// Rates are the rates of further workloads of nodes, in requests per second.
	Rates []float64 `json:"rates,omitempty"`
	// Proxy says that clients read through kubectl's proxy.
	Proxy    bool          `json:"proxy,omitempty"`
	Duration time.Duration `json:"durationNanos"`
	Settle   time.Duration `json:"settleNanos"`  // pause before measuring
	Timeout  time.Duration `json:"timeoutNanos"` // for one setup
}

// NewCommand returns the command "bench servers".
func NewCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "Measure LISTs at several servers over one etcd, and at replicas",
		Long: `Measures large LISTs without a resource version at one, two and three servers over one
etcd, and at replicas of one server: requests a second, times, and the CPU of the
servers or replicas, of the replicas' server and of etcd.

20 clients list all nodes, and then 5 clients all pods, each as fast as it gets
answers. A client has one connection. Clients are spread over the servers. With --rates
nodes are also listed at rates that do not depend on the answers; times then begin when
a request is due. With --proxy clients speak plain HTTP/1.1 with kubectl's proxy, which
hands requests to the servers round-robin.

All processes share this machine: on one with few cores, more servers cannot answer
more, and what counts is the CPU for a request.`,
		Example: `  millrace-lab bench servers --kube-apiserver=bin/kube-apiserver
  millrace-lab bench servers --servers=1,2 --replicas=0 --duration=10s
  millrace-lab bench servers --servers=1,2 --replicas=0 --proxy --rates=10,20,50,100
  millrace-lab bench servers --from servers.json -o markdown`,
	}
	testbed.Subcommand{
		Validate: o.validate,
		From:     &o.from, Output: &o.output, NewReport: func() testbed.Report { return &report{} },
		Measure: func(ctx context.Context, to testbed.Streams) error { return execute(ctx, o, to) },
	}.Bind(cmd)
	o.addFlags(cmd.Flags())
	return cmd
}

// addFlags adds the flags of "bench servers", except the flags of testbed.Subcommand.
func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Stock, "kube-apiserver", "", "kube-apiserver to compare with (default: millrace with the stock read path)")
	f.StringSliceVar(&o.ReadPaths, "read-paths", nil, "what to run, in this order (default millrace and what to compare with)")
	f.BoolVar(&o.plan.Proxy, "proxy", false, "read through kubectl's proxy, which spreads requests over all servers or replicas")
	f.Float64SliceVar(&o.plan.Rates, "rates", nil, "also list nodes at these rates, in requests per second")
	o.AddProcessFlags(f, "")
	o.AddAtFlags(f, "")
	f.IntSliceVar(&o.servers, "servers", []int{1, 2, 3}, "numbers of servers over one etcd; 0: no setup with servers alone")
	f.IntSliceVar(&o.replicas, "replicas", []int{1, 2, 4}, "numbers of replicas of one server; 0: no setup with replicas")
	f.IntVar(&o.fill.Nodes, "nodes", 1000, "nodes to fill in")
	f.IntVar(&o.fill.Pods, "pods", 10_000, "pods to fill in")
	f.StringVar(&o.fill.PodSize, "pod-size", "4KB", "size of a pod as JSON")
	f.IntVar(&o.fill.Namespaces, "namespaces", 1, "namespaces to spread pods over")
	f.DurationVar(&o.plan.Duration, "duration", 10*time.Second, "how long to measure each workload")
	f.DurationVar(&o.plan.Settle, "settle", time.Second, "pause before measuring")
	f.DurationVar(&o.plan.Timeout, "timeout", 10*time.Minute, "give a setup up after this time")
}

const (
	maxServers = 16     // bounds the servers or replicas of a setup
	maxRate    = 10_000 // bounds --rates, in requests per second
)

// validate checks the flags, and chooses the read paths.
func (o *options) validate() error {
	for _, n := range slices.Concat(o.servers, o.replicas) {
		if n < 0 || n > maxServers {
			return fmt.Errorf("--servers and --replicas: %d is not from 0 to %d", n, maxServers)
		}
	}
	for _, rate := range o.plan.Rates {
		if rate <= 0 || rate > maxRate {
			return fmt.Errorf("--rates: %g is not above 0, and up to %d", rate, maxRate)
		}
	}
	o.CompareOverEtcd()
	if err := o.Options.Validate(); err != nil {
		return err
	}
	if len(o.setups()) == 0 {
		return errors.New("--servers and --replicas: give at least one number in one of the flags")
	}
	if o.fill.Nodes < 1 || o.fill.Pods < 1 || o.fill.Namespaces < 1 {
		return errors.New("--nodes, --pods and --namespaces: must be at least 1")
	}
	return testbed.CheckMinimums([]testbed.Minimum[time.Duration]{
		{Flag: "duration", Value: o.plan.Duration, Min: time.Millisecond}, {Flag: "settle", Value: o.plan.Settle, Min: 0},
		{Flag: "timeout", Value: o.plan.Timeout, Min: time.Second}, {Flag: "ready-timeout", Value: o.ReadyTimeout, Min: time.Second},
	})
}

// execute measures and prints the report. It returns an error if a setup failed.
func execute(ctx context.Context, o *options, to testbed.Streams) error {
	b := &bench{opts: o, progress: testbed.NewProgress(to.Err), report: &report{
		Started: time.Now(), Machine: testbed.ThisMachine(), Data: o.fill, Plan: o.plan,
	}}
	return testbed.WithTestbed(ctx, testbed.Config{Options: o.Options, Progress: b.progress}, func(bed *testbed.Testbed) error {
		b.bed = bed
		if err := b.run(ctx); err != nil {
			return err
		}
		return testbed.Print(b.report, to.Out, o.output)
	})
}
