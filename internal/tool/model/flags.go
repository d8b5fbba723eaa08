package model

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// addFlags defines the flags of a cluster in a set. The defaults are a usual cluster.
func (c *Cluster) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Counts, "counts", "", "file that millrace-tools analyze profile wrote: the objects of each node of your cluster, "+
		"and their sizes")
	f.Float64Var(&c.PodsPerNode, "pods-per-node", 30, "pods on each node")
	f.Var(newSizeValue(&c.PodBytes, 4000), "pod-size", "size of a pod as JSON")
	f.Var(newSizeValue(&c.NodeBytes, 6500), "node-size", "size of a node as JSON")
	f.Float64Var(&c.PodsPerService, "pods-per-service", 50, "pods of each service, and endpoints of a slice (up to 100)")
	f.Float64Var(&c.PodVolumes, "pod-volumes", 0.5, "secrets of each pod that no other pod of its node uses; it has as many such config maps")
	f.Float64Var(&c.Churn, "churn", 1, "pods created per second and 1,000 nodes; as many end")
	f.DurationVar(&c.LeaseInterval, "lease-interval", 10*time.Second, "time between two renewals of a node's lease")
	f.DurationVar(&c.StatusInterval, "status-interval", 5*time.Minute, "time between two writes of a node's status")
	f.StringSliceVar(&c.Agents, "agents", []string{"network", "exporter", "logs", "state-metrics"},
		"profiles of the agents that run in addition to kubelet and kube-proxy, as in millrace-lab hollow")
	f.StringVar(&c.Profiles, "profiles", "", "directory with profiles of your own")
	f.BoolVar(&c.KubeProxy, "kube-proxy", true, "a kube-proxy runs on each node")
	f.BoolVar(&c.Optional, "optional", false, "the servers serve the resources that profiles mark as optional, such as Cilium's")
	f.Float64Var(&c.Definitions, "crds", 0, "custom resource definitions")
	f.Float64Var(&c.Storm, "storm", 1, "fraction of all programs that start at the same time")
	f.IntVar(&c.Servers, "servers", 3, "API servers")
	f.StringVar(&c.Tree, "tree", autoTree, "replicas at each depth, as in 2,4; auto computes them")
	f.StringSliceVar(&c.OwnEtcd, "own-etcd", nil, "resources that have an etcd of their own: leases, events")
	f.Float64Var(&c.Cores, "cores", 16, "processors of each server and each replica")
	f.Var(newSizeValue(&c.MemoryBytes, 64e9), "memory", "memory of each server and each replica")
	f.Var(newSizeValue(&c.NetworkBits, 10e9), "network", "bits a second of each network card, as in 10G")
}

// sizeValue is a flag's value: a number with a decimal or binary unit, as in 4KB, 10G or 64Gi.
type sizeValue struct{ value *float64 }

// newSizeValue sets *value to initial, and returns a flag's value for it.
func newSizeValue(value *float64, initial float64) *sizeValue {
	*value = initial
	return &sizeValue{value}
}

// units are the letters of decimal units, each a thousand times the one before.
const units = "kMGTP"

// Set implements pflag.Value.
func (s *sizeValue) Set(text string) error {
	// A Quantity has no unit K.
	number := strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(text), "B"), "K", "k")
	v, err := resource.ParseQuantity(number)
	if err != nil || v.Sign() <= 0 {
		return fmt.Errorf("%q is no size: write it as in 4KB, 64GB or 10G", text)
	}
	*s.value = v.AsApproximateFloat64()
	return nil
}

// String implements pflag.Value.
func (s *sizeValue) String() string {
	v := *s.value
	var unit string
	for i := 0; v >= 1000 && i < len(units); i++ {
		v, unit = v/1000, units[i:i+1]
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + unit
}

// Type implements pflag.Value.
func (s *sizeValue) Type() string { return "size" }
