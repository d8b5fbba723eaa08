package provision

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/hollow"
	"github.com/millrace/millrace/internal/tool/display"
)

// Paths besides the read paths of testbed: replicas of a stock server, and a cluster that exists.
const (
	pathReplicaAPI  = "replica-api"  // fed by the stock server
	pathReplicaEtcd = "replica-etcd" // fed by etcd
	pathCluster     = "cluster"
)

// pathNames returns the values of --paths.
func pathNames() []string {
	return []string{testbed.ReadPathMillrace, testbed.ReadPathKubernetes, testbed.ReadPathStock, pathReplicaAPI, pathReplicaEtcd}
}

// Values of --pods-of.
const (
	podsOfDeployments = "deployments"
	podsOfPods        = "pods"
)

// plan says what runs on each path. It is part of the report.
type plan struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace"`
	Nodes     int      `json:"nodes"`
	Agents    []string `json:"agents,omitempty"`
	NodeRate  float64  `json:"nodesPerSecond"` // at which nodes start
	Watchers  int      `json:"watchers"`
	// ConnectionsPerNode is the number of connections that the programs of a node share. 0: each
	// program has its own.
	ConnectionsPerNode float64 `json:"connectionsPerNode,omitempty"`

	Pods              int           `json:"pods"`
	PodsOf            string        `json:"podsOf"`
	PodsPerDeployment int           `json:"podsPerDeployment,omitempty"`
	Rate              float64       `json:"podsPerSecond,omitempty"` // 0: all at once
	PodStart          time.Duration `json:"podStartNanos"`           // of a pod's containers

	// ComponentQPS is the constant componentQPS of this run.
	ComponentQPS int           `json:"componentQPS"`
	Turns        int           `json:"turns"`
	Settle       time.Duration `json:"settleNanos"`  // time in which a server must be idle before
	Timeout      time.Duration `json:"timeoutNanos"` // for one path
}

// options are the flags of "bench provision".
type options struct {
	testbed.Options
	plan
	server        kubeconfig.Flags // zero: servers are started
	remove        bool             // --delete
	ownComponents bool
	// chosen are the values of --paths. Empty: the default paths.
	chosen     []string
	slo        string
	objectives []objective // set by validate from slo
	output     string
	from       string
	page       string // the file of --report; empty: no page is written
}

// addFlags adds the flags of "bench provision", except the flags of testbed.Subcommand.
func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.chosen, "paths", nil,
		"what to measure, among "+strings.Join(pathNames(), ", ")+" (default: millrace, a stock server, and a replica of the stock server)")
	f.StringVar(&o.Stock, "kube-apiserver", "", "the stock server (default: millrace with the stock read path)")
	f.BoolVar(&o.ownComponents, "own-components", false,
		"with --kubeconfig: run the scheduler and the controller manager of millrace, for a cluster that has none")
	f.StringVar(&o.server.Kubeconfig, "kubeconfig", "", "measure this cluster and start no server")
	kubeconfig.AddContext(f, &o.server.Context)
	f.BoolVar(&o.remove, "delete", false, "with --kubeconfig: remove what a run has left, and measure nothing")
	o.AddProcessFlags(f, "")
	f.StringVar(&o.Name, "name", "provision", "name of the run: prefix of the names of its objects, "+
		"and value of their label "+hollow.Label)
	f.StringVar(&o.Namespace, "namespace", "default", "where the pods are made")
	f.IntVar(&o.Nodes, "nodes", 100, "hollow nodes")
	f.StringSliceVar(&o.Agents, "agents", nil, "profiles of agents on each node; millrace-lab hollow profile lists them")
	f.Float64Var(&o.ConnectionsPerNode, "connections-per-node", 0,
		"connections that a node's programs share, as in 1 or 0.1 (0: a connection per program)")
	f.Float64Var(&o.NodeRate, "node-rate", 50, "nodes that start in a second, before the measurement")
	f.IntVar(&o.Watchers, "watchers", 20, "informers of all pods, each with a connection")
	f.IntVar(&o.Pods, "pods", 1000, "pods to make")
	f.StringVar(&o.PodsOf, "pods-of", podsOfDeployments, "deployments, which the controller manager makes pods of, or pods")
	f.IntVar(&o.PodsPerDeployment, "pods-per-deployment", 50, "pods of each Deployment")
	f.Float64Var(&o.Rate, "rate", 0, "pods per second (0: all at once)")
	f.DurationVar(&o.PodStart, "pod-start", 0, "how long the containers of a pod take to start")
	f.IntVar(&o.Turns, "turns", 1, "how often to measure the paths, one after the other; the medians are shown")
	f.DurationVar(&o.Settle, "settle", time.Second, "how long a server must be idle before the measurement")
	f.DurationVar(&o.Timeout, "timeout", 15*time.Minute, "give a path up after this time")
	f.StringVar(&o.slo, "slo", "", `objectives, as in "watch p99<1s,provision p95<15s"; `+
		"the exit code is 1 if an objective is missed; steps: "+strings.Join(stepNames(), ", "))
	f.StringVar(&o.page, "report", "", "write a page of HTML to this file, too")
}

// componentQPS bounds the requests per second of the scheduler and of the controller manager, and also
// their requests at once.
const componentQPS = 5000

// podsPerNode is the number of pods that a hollow node takes.
const podsPerNode = 110

// maxDeliveries bounds the events of all watchers together, whose times are kept until the end. A
// watcher keeps no more than its share.
const maxDeliveries = 40_000_000

// eventsPerPod is about the number of events of a pod until it runs.
const eventsPerPod = 5

// validate checks the flags, and sets objectives.
func (o *options) validate() (err error) {
	if err := display.CheckFile(o.page); err != nil {
		return err
	}
	if o.slo != "" && o.from != "" {
		return errors.New("--slo is for what is measured now: leave it out with --from, whose report has the objectives of its own run")
	}
	if o.objectives, err = parseObjectives(o.slo); err != nil {
		return err
	}
	if err := testbed.CheckMinimums([]testbed.Minimum[int]{
		{Flag: "nodes", Value: o.Nodes, Min: 1}, {Flag: "watchers", Value: o.Watchers, Min: 1}, {Flag: "pods", Value: o.Pods, Min: 1},
		{Flag: "pods-per-deployment", Value: o.PodsPerDeployment, Min: 1}, {Flag: "turns", Value: o.Turns, Min: 1},
	}); err != nil {
		return err
	}
	if err := testbed.CheckMinimums([]testbed.Minimum[time.Duration]{
		{Flag: "pod-start", Value: o.PodStart, Min: 0}, {Flag: "settle", Value: o.Settle, Min: time.Millisecond},
		{Flag: "timeout", Value: o.Timeout, Min: time.Second}, {Flag: "ready-timeout", Value: o.ReadyTimeout, Min: time.Second},
	}); err != nil {
		return err
	}
	switch {
	case o.PodsOf != podsOfDeployments && o.PodsOf != podsOfPods:
		return fmt.Errorf("--pods-of=%s: choose %s or %s", o.PodsOf, podsOfDeployments, podsOfPods)
	case o.Pods+1 > o.Nodes*podsPerNode:
		return fmt.Errorf("--pods=%d: %d nodes take %d pods each, and one more pod is the first: raise --nodes", o.Pods, o.Nodes, podsPerNode)
	case o.Pods*o.Watchers*eventsPerPod > maxDeliveries:
		return fmt.Errorf("--watchers=%d with --pods=%d: that is more than %d events, which are kept until the end: lower one of them",
			o.Watchers, o.Pods, maxDeliveries)
	case o.Rate < 0 || o.NodeRate <= 0:
		return errors.New("--rate must not be negative, and --node-rate must be positive")
	}
	cfg := o.fleet(newTracker(o.Name, o.Pods, o.Watchers, nil))
	if err := cfg.Check(); err != nil {
		return err
	}
	return o.validatePaths()
}

// fleet returns the configuration of the hollow nodes and the watchers, without a server.
func (p *plan) fleet(observer hollow.Observer) hollow.Config {
	return hollow.Config{
		Name: p.Name, Nodes: p.Nodes, Agents: p.Agents, KubeProxy: true, Namespace: p.Namespace, PodStart: p.PodStart,
		Start: hollow.StartPaced, StartRate: p.NodeRate, Seed: 1, ConnectionsPerNode: p.ConnectionsPerNode,
		PodWatchers: p.Watchers, Observer: observer,
	}
}

// validatePaths checks the flags that choose what runs.
func (o *options) validatePaths() error {
	if o.server.Given() {
		if len(o.chosen) > 0 || o.Stock != "" || o.HasServerArgs() {
			return errors.New("--paths, --kube-apiserver and --server-arg: leave them out with --kubeconfig, which measures the cluster as it is")
		}
		return nil
	}
	if o.ownComponents {
		return errors.New("--own-components needs --kubeconfig: for servers that are started, the components are started in any case")
	}
	if o.server.Context != "" {
		return errors.New("--context needs the --kubeconfig that it is in")
	}
	if o.remove {
		return errors.New("--delete needs the --kubeconfig of the cluster from which to remove objects: servers that a run " +
			"has started leave none")
	}
	for i, path := range o.chosen {
		switch {
		case !slices.Contains(pathNames(), path) || slices.Contains(o.chosen[:i], path):
			return fmt.Errorf("--paths: choose among %s, each once", strings.Join(pathNames(), ", "))
		case path == testbed.ReadPathStock && o.Stock == "":
			return fmt.Errorf("--paths: %s needs the program: build it with make bin/kube-apiserver, and give "+
				"--kube-apiserver=bin/kube-apiserver", path)
		}
	}
	return nil
}

// paths returns the paths to measure in each turn, in this order.
func (o *options) paths() []string {
	switch {
	case o.server.Given():
		return []string{pathCluster}
	case len(o.chosen) > 0:
		return o.chosen
	}
	return []string{testbed.ReadPathMillrace, o.stock(), pathReplicaAPI}
}

// stock returns the read path of stock servers.
func (o *options) stock() string {
	if o.Stock != "" {
		return testbed.ReadPathStock
	}
	return testbed.ReadPathKubernetes
}
