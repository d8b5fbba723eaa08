package model

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cluster describes a cluster, its load and its machines.
type Cluster struct {
	// Nodes is the number of nodes. Run sets it for each size.
	Nodes       float64 `json:"nodes"`
	PodsPerNode float64 `json:"podsPerNode"`
	// PodBytes and NodeBytes are sizes of objects as JSON.
	PodBytes  float64 `json:"podBytes"`
	NodeBytes float64 `json:"nodeBytes"`
	// PodsPerService is also the number of endpoints of each slice.
	PodsPerService float64 `json:"podsPerService"`
	// PodVolumes is the number of secrets, and the number of config maps, that a pod uses and no
	// other pod of its node uses.
	PodVolumes float64 `json:"podVolumes"`
	// Churn is the number of pods that are created, and the number that end, per second and 1,000
	// nodes.
	Churn          float64       `json:"churn"`
	LeaseInterval  time.Duration `json:"leaseIntervalNanos"`
	StatusInterval time.Duration `json:"statusIntervalNanos"`

	Agents    []string `json:"agents"`             // names of profiles
	Profiles  string   `json:"profiles,omitempty"` // directory with profiles of the user
	KubeProxy bool     `json:"kubeProxy"`
	// Optional says that the servers serve the resources that profiles mark as optional.
	Optional bool `json:"optional"`
	// Definitions is the number of custom resource definitions.
	Definitions float64 `json:"definitions,omitempty"`
	// Storm is the fraction of all programs that start at the same time.
	Storm float64 `json:"storm"`

	Servers int `json:"servers"` // number of API servers
	// Tree is "auto", or the number of replicas at each depth, as in 2,4.
	Tree string `json:"tree"`
	// OwnEtcd are the resources with an etcd of their own: leases, events.
	OwnEtcd []string `json:"ownEtcd,omitempty"`
	// Cores, MemoryBytes and NetworkBits are of each server and each replica.
	Cores       float64 `json:"cores"`
	MemoryBytes float64 `json:"memoryBytes"`
	NetworkBits float64 `json:"networkBitsPerSecond"`

	// Counts is the file of a clusterprofile.Profile, or "".
	Counts string `json:"counts,omitempty"`

	tree   []int          // number of replicas at each depth, nil for auto
	counts *clusterCounts // content of the file Counts, nil for none
}

// autoTree is the value of --tree with which the model chooses the numbers of replicas.
const autoTree = "auto"

// Bounds of flags. Results beyond them mean nothing.
const (
	maxNodes    = 100_000_000
	maxReplicas = 1_000_000
	maxServers  = 1000
)

// validate returns an error that says which flag to change. It also sets tree.
func (c *Cluster) validate() error {
	for _, f := range []struct {
		name       string
		value, min float64
	}{
		{"pods-per-node", c.PodsPerNode, 0}, {"pod-size", c.PodBytes, 1}, {"node-size", c.NodeBytes, 1},
		{"pods-per-service", c.PodsPerService, 1}, {"pod-volumes", c.PodVolumes, 0}, {"churn", c.Churn, 0},
		{"crds", c.Definitions, 0}, {"cores", c.Cores, 1}, {"memory", c.MemoryBytes, 1e9}, {"network", c.NetworkBits, 1e6},
	} {
		if !(f.value >= f.min) || math.IsInf(f.value, 0) {
			return fmt.Errorf("--%s is %g: choose a number from %g on", f.name, f.value, f.min)
		}
	}
	switch {
	case c.PodsPerNode > 1000:
		return fmt.Errorf("--pods-per-node=%g: choose up to 1000", c.PodsPerNode)
	case c.Storm < 0 || c.Storm > 1:
		return fmt.Errorf("--storm=%g: choose a fraction of all programs, from 0 to 1", c.Storm)
	case c.LeaseInterval < time.Second || c.StatusInterval < time.Second:
		return errors.New("--lease-interval and --status-interval: choose 1s or more")
	case c.Servers < 1 || c.Servers > maxServers:
		return fmt.Errorf("--servers=%d: choose 1 to %d", c.Servers, maxServers)
	}
	for _, name := range c.OwnEtcd {
		if name != "leases" && name != "events" {
			return fmt.Errorf("--own-etcd=%s: choose leases, events or both", name)
		}
	}
	return c.parseTree()
}

// parseTree sets tree from Tree.
func (c *Cluster) parseTree() error {
	c.tree = nil
	if c.Tree == autoTree {
		return nil
	}
	var tree []int
	for text := range strings.SplitSeq(c.Tree, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > maxReplicas {
			return fmt.Errorf("--tree=%s: must be auto, or the number of replicas at each depth, as in 2,4: each from 1 to %d", c.Tree, maxReplicas)
		}
		tree = append(tree, n)
	}
	if !slices.IsSorted(tree) {
		return fmt.Errorf("--tree=%s: each depth must have as many replicas as the depth before, or more", c.Tree)
	}
	c.tree = tree
	return nil
}

func (c *Cluster) pods() float64          { return c.Nodes * c.PodsPerNode }
func (c *Cluster) podsPerSecond() float64 { return c.Churn * c.Nodes / 1000 }
func (c *Cluster) networkBytes() float64  { return c.NetworkBits / 8 }
func (c *Cluster) namespaces() float64 {
	return max(5, c.counts.objectCount("namespaces", c.Nodes, c.pods()/podsPerNamespace))
}
func (c *Cluster) volumesPerNode() float64 { return c.PodsPerNode * c.PodVolumes }
