package fill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/tool/clusterprofile"
	"github.com/millrace/millrace/internal/tool/interrupt"
)

const longHelp = `Write a synthetic cluster of any size: nodes, namespaces, pods, secrets, config
maps, deployments, services, events, custom resource definitions and their objects.

There are two ways in:

  Through the API of any Kubernetes server. Objects pass admission and
  validation. This is the way unless --etcd-servers is given.

  Straight into etcd with --etcd-servers, in the layout in which Kubernetes
  stores objects. This writes 100,000 pods in seconds. Objects are written
  unencrypted, also if the server encrypts its own.

Equal seeds and sizes make equal objects. Every object carries the label
millrace.io/fill=<seed>, and --delete removes, through the API, the objects with that
label and nothing else. It leaves namespaces and definitions in which somebody else has
objects. In a namespace it does not look for custom objects, endpoints, endpoint slices,
controller revisions and events. A fill that was interrupted can be repeated: objects
that exist are not written again.

Exactly 20 pods, the replicas of one ReplicaSet, share a value of the label
bench.millrace.io/slice (0, 1, 2, ...), 500 pods share a value of
bench.millrace.io/group, and a 500th of all pods shares a value of
bench.millrace.io/share (0 to 499).

--crds makes custom resource definitions, in groups named g000.fill.millrace.dev
and on: namespaced, version v1, with a status, two printer columns and a
selectable field (spec.class); every tenth has validation rules. Definitions and
their objects are written through the API alone.

The ReplicaSets that own the pods exist only with --workloads, and have their UIDs
only straight in etcd. In a cluster whose kube-controller-manager runs, give
--ownerless, or its garbage collector removes the pods; it also finds the nodes
without a heartbeat and evicts pods from them.`

const examples = `  # 100,000 pods of 4 KB on 1,000 nodes, through the API
  millrace-lab fill --pods 100000

  # The same straight into etcd
  millrace-lab fill --pods 100000 --etcd-servers http://127.0.0.1:2379

  # A whole cluster: with deployments, services, leases of nodes and events
  millrace-lab fill --pods 100000 --workloads --leases --events 200000 --etcd-servers http://127.0.0.1:2379

  # Nodes, and pods that a scheduler has to place on them
  millrace-lab fill --nodes 5000
  millrace-lab fill --pods 50000 --unbound

  # Large pods, secrets and config maps in 50 namespaces
  millrace-lab fill --namespaces 50 --pods 20000 --pod-size 17KB \
    --secrets 10000 --secret-size 1KB --configmaps 5000 --configmap-size 50KB

  # 2,000 custom resource definitions in 200 groups, and 10,000 objects
  millrace-lab fill --crds 2000 --groups 200 --properties 100 --objects 10000

  # The definitions of a project, and objects of them
  millrace-lab fill --definitions cert-manager/deploy/crds --objects 10000

  # A cluster with the numbers, sizes and labels of one that was measured
  millrace-tools analyze profile > cluster.json
  millrace-lab fill --profile cluster.json

  # Remove what a fill with this seed wrote
  millrace-lab fill --delete --seed 1`

// Streams are the outputs of the command: Out receives the summary, Err the
// progress.
type Streams struct {
	Out, Err io.Writer
}

// options holds the flags of the command. run turns them into a Config.
type options struct {
	Config
	profile string
	files   []string
	timeout time.Duration
}

// NewCommand returns the command "fill".
func NewCommand(streams Streams) *cobra.Command {
	o := options{Config: Config{Server: kubeconfig.Flags{Deliberate: true}}}
	cmd := &cobra.Command{
		Use:          "fill",
		Short:        "Write a synthetic cluster of any size, or remove it",
		Long:         longHelp,
		Example:      examples,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), streams)
		},
	}
	o.addFlags(cmd)
	return cmd
}

// addFlags adds the command's flags. They set the fields of o.
func (o *options) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	shape := &o.Shape
	shape.PodSize, shape.SecretSize, shape.ConfigMapSize = DefaultPodSize, DefaultSecretSize, DefaultConfigMapSize

	flags.IntVar(&shape.Pods, "pods", 0, "number of pods")
	flags.IntVar(&shape.Nodes, "nodes", 0, "number of nodes (0: a node per 100 pods, or none with --unbound)")
	flags.IntVar(&shape.Namespaces, "namespaces", 0, "number of namespaces (0: a namespace per 1,000 objects)")
	flags.IntVar(&shape.Secrets, "secrets", 0, "number of secrets")
	flags.IntVar(&shape.ConfigMaps, "configmaps", 0, "number of config maps")
	flags.Var(sizeFlag{&shape.PodSize}, "pod-size", "size of a pod as compact JSON, such as 4000, 4KB or 17KB")
	flags.Var(sizeFlag{&shape.SecretSize}, "secret-size", "size of a secret as compact JSON")
	flags.Var(sizeFlag{&shape.ConfigMapSize}, "configmap-size", "size of a config map as compact JSON")
	flags.BoolVar(&shape.Workloads, "workloads", false, "write the Deployment, ReplicaSet, Service and EndpointSlice of each 20 pods too")
	flags.BoolVar(&shape.Leases, "leases", false, "write the lease of each node too")
	flags.IntVar(&shape.Events, "events", 0, "number of events, spread over all pods")
	flags.IntVar(&shape.CRDs, "crds", 0, "number of custom resource definitions")
	flags.IntVar(&shape.Groups, "groups", 0, "API groups of the definitions (0: a group per ten definitions)")
	flags.IntVar(&shape.Properties, "properties", DefaultProperties,
		"properties in the schema of each definition, including nested properties")
	flags.IntVar(&shape.Objects, "objects", 0, "number of custom objects, spread over all definitions")
	flags.StringVar(&o.profile, "profile", "", "write objects like those of the cluster in this file, which millrace-tools "+
		"analyze profile has printed, instead of given numbers")
	flags.StringSliceVar(&o.files, "definitions", nil,
		"files or directories with custom resource definitions of real projects to write; their objects are --objects in all")
	flags.Uint64Var(&shape.Seed, "seed", 1, "decides all names, identities and contents")
	flags.BoolVar(&shape.Older, "older", false, "write pods as versions before 1.16 stored them, so that servers add the "+
		"missing fields at each read; with --etcd-servers")
	flags.BoolVar(&shape.Unbound, "unbound", false, "leave pods without a node, for a scheduler to place")
	flags.BoolVar(&shape.Ownerless, "ownerless", false, "leave out owner references")
	flags.BoolVar(&o.Delete, "delete", false, "remove what a fill with the same seed wrote")

	o.Server.AddTo(flags)
	o.Server.AddDataDir(flags)

	flags.StringSliceVar(&o.Etcd.Endpoints, "etcd-servers", nil, "write straight into this etcd (comma-separated client URLs)")
	flags.StringVar(&o.Etcd.CAFile, "etcd-cafile", "", "certificate authority of etcd")
	flags.StringVar(&o.Etcd.CertFile, "etcd-certfile", "", "client certificate for etcd")
	flags.StringVar(&o.Etcd.KeyFile, "etcd-keyfile", "", "key of the client certificate for etcd")
	flags.StringVar(&o.Etcd.Prefix, "etcd-prefix", defaultPrefix, "prefix of all keys in etcd")

	flags.IntVar(&o.Workers, "workers", 0,
		fmt.Sprintf("requests in flight (0: %d through the API, %d to etcd)", DefaultAPIWorkers, DefaultEtcdWorkers))
	flags.DurationVar(&o.timeout, "timeout", 0, "give up after this time (0: never)")
}

// run fills or deletes, and prints the summary, also if the run has failed halfway.
func (o *options) run(ctx context.Context, streams Streams) error {
	if o.timeout < 0 {
		return fmt.Errorf("timeout is %s: give zero or a positive time", o.timeout)
	}
	cfg := o.Config
	cfg.Progress = streams.Err
	if o.profile != "" {
		var err error
		if cfg.Profile, err = clusterprofile.Read(o.profile); err != nil {
			return err
		}
	}
	if len(o.files) > 0 {
		var err error
		if cfg.Definitions, err = ReadDefinitions(o.files); err != nil {
			return err
		}
		cfg.DefinitionObjects = cfg.Shape.Objects
		cfg.Shape.Objects = 0
		if cfg.Shape.Namespaces == 0 {
			cfg.Shape.Namespaces = 1 + cfg.DefinitionObjects/1000
		}
	}
	filler, err := New(cfg)
	if err != nil {
		return err
	}
	ctx, stop := interrupt.Context(ctx)
	defer stop()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the timeout of %s has passed", o.timeout))
		defer cancel()
	}
	summary, err := filler.Run(ctx)
	if err == nil || summary.Total() != (Count{}) {
		_, printErr := fmt.Fprintln(streams.Out, strings.Join(append([]string{summary.String()}, summary.Notes...), "\n"))
		if printErr != nil && err == nil {
			return fmt.Errorf("print the summary: %w", printErr)
		}
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return errors.New("interrupted; repeat the command to go on where it stopped")
	}
	return err
}
