package storm

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
	"github.com/millrace/millrace/internal/lab/hollow"
)

// plan says which clients there are, and when they come.
type plan struct {
	Nodes    int      `json:"nodes"`
	Agents   []string `json:"agents"`
	Profiles string   `json:"profiles,omitempty"`
	// Within is the time in which all new nodes start, from the start of the server on.
	Within  time.Duration `json:"withinNanos"`
	Rest    time.Duration `json:"restNanos"`    // from the end of the first storm to the kill of its server
	Down    time.Duration `json:"downNanos"`    // from the kill to the start of the second storm
	Timeout time.Duration `json:"timeoutNanos"` // for one storm
}

// options are the flags of "bench storm".
type options struct {
	testbed.Options
	fill         testbed.FillConfig
	podsPerNode  int
	plan         plan
	output, from string
}

// addFlags adds the flags of "bench storm", except the flags of testbed.Subcommand.
func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Stock, "kube-apiserver", "", "kube-apiserver to compare with (default: millrace with the stock read path)")
	f.StringSliceVar(&o.ReadPaths, "read-paths", nil, "what to run, in this order (default millrace and what to compare with)")
	o.AddProcessFlags(f, "")
	f.IntVar(&o.plan.Nodes, "nodes", 1000, "hollow nodes")
	f.IntVar(&o.podsPerNode, "pods-per-node", 30, "pods to fill in for each node")
	f.StringVar(&o.fill.PodSize, "pod-size", "4KB", "size of a pod as JSON")
	f.IntVar(&o.fill.Namespaces, "namespaces", 20, "namespaces to spread pods over")
	f.StringSliceVar(&o.plan.Agents, "agents", []string{"network", "exporter", "logs"},
		"profiles of the agents on each node, besides kubelet and kube-proxy")
	f.StringVar(&o.plan.Profiles, "profiles", "", "directory with profiles of your own")
	f.DurationVar(&o.plan.Within, "within", 5*time.Second, "how long it takes until all new nodes have started")
	f.DurationVar(&o.plan.Rest, "rest", 150*time.Second,
		"how long clients run before the server is killed; after 2 minutes without a failure client-go starts with short pauses again")
	f.DurationVar(&o.plan.Down, "down", time.Second, "how long no server runs after that")
	f.DurationVar(&o.plan.Timeout, "timeout", 10*time.Minute, "give a storm up after this time")
}

// validate checks the flags, and sets the options that follow from them.
func (o *options) validate() error {
	o.CompareOverEtcd()
	if err := o.Options.Validate(); err != nil {
		return err
	}
	if err := testbed.CheckMinimums([]testbed.Minimum[int]{
		{Flag: "nodes", Value: o.plan.Nodes, Min: 1}, {Flag: "pods-per-node", Value: o.podsPerNode, Min: 1},
		{Flag: "namespaces", Value: o.fill.Namespaces, Min: 1},
	}); err != nil {
		return err
	}
	if err := testbed.CheckMinimums([]testbed.Minimum[time.Duration]{
		{Flag: "within", Value: o.plan.Within, Min: time.Millisecond},
		{Flag: "rest", Value: o.plan.Rest, Min: 0}, {Flag: "down", Value: o.plan.Down, Min: 0},
		{Flag: "timeout", Value: o.plan.Timeout, Min: time.Second}, {Flag: "ready-timeout", Value: o.ReadyTimeout, Min: time.Second},
	}); err != nil {
		return err
	}
	if _, err := fill.ParseSize(o.fill.PodSize); err != nil {
		return fmt.Errorf("--pod-size=%s: %w", o.fill.PodSize, err)
	}
	o.fill.Nodes, o.fill.Pods = o.plan.Nodes, o.plan.Nodes*o.podsPerNode
	o.fill.Services, o.fill.Leases = true, true
	o.ReadyTimeout = max(o.ReadyTimeout, o.plan.Timeout) // in a storm, a server may become ready late
	fleet := o.plan.fleet()
	return fleet.Check()
}

// nodeName returns the name of node i that was filled in. Its seed is the default of "fill".
func nodeName(i int) string { return fill.NodeName(1, i) }

// fleet returns the configuration of the clients, without a server. Their requests have the users of
// real clients, because flow control depends on the user.
func (p *plan) fleet() hollow.Config {
	return hollow.Config{
		Name: "storm", Nodes: p.Nodes, Agents: p.Agents, Profiles: p.Profiles, KubeProxy: true, Namespace: "default", Seed: 1,
		Start: hollow.StartPaced, StartRate: float64(p.Nodes) / p.Within.Seconds(),
		Impersonate: true, ServiceAccountRights: true, ExistingNode: nodeName, SkipPreflight: true,
	}
}
