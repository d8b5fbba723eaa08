package model

import (
	"maps"
	"math"
	"slices"
)

// resourceLoad is a resource of the cluster in numbers.
type resourceLoad struct {
	objects float64
	bytes   float64 // of one, as JSON
	changes float64 // in a second, each an event and a write
	etcd    string  // the group that may have an etcd of its own
}

// What the life of a pod writes.
const (
	podWrites      = 7 // created, bound, three statuses, marked for deletion, deleted
	podEvents      = 5 // Event objects: scheduled, pulled, created, started, killing
	kubeletGets    = 3 // a GET before each status
	sliceWrites    = 2 // its EndpointSlice and its Endpoints: when it is ready, and when it ends
	kubeletWrites  = 4 // of podWrites: three statuses and the deletion
	kubeletEvents  = 4 // of podEvents
	eventRetention = 3600.0
)

// Sizes and numbers of objects that no flag has. They are assumptions: Assumptions lists them.
const (
	podsPerNamespace = 300
	leaseBytes       = 700
	eventBytes       = 1000
	endpointBytes    = 300
	sliceBytes       = 500
	metadataBytes    = 500
	maxEndpoints     = 100 // of a slice
	// labelShare is the part of objects that a selector by a label's value selects.
	labelShare = 0.01
	// controllers is how many clients of the control plane watch each resource at the servers.
	controllers = 2
)

// resources returns all resources of the cluster.
func (c *Cluster) resources() map[string]resourceLoad {
	pods, churn := c.pods(), c.podsPerSecond()
	services := math.Ceil(pods / c.PodsPerService)
	endpoints := math.Min(maxEndpoints, c.PodsPerService)
	endpointSlices := math.Ceil(pods / endpoints)
	slice := sliceBytes + endpointBytes*endpoints
	heartbeats := 1 / c.LeaseInterval.Seconds()
	return map[string]resourceLoad{
		"v1/pods":                                       {objects: pods, bytes: c.PodBytes, changes: podWrites * churn},
		"v1/nodes":                                      {objects: c.Nodes, bytes: c.NodeBytes, changes: c.Nodes / c.StatusInterval.Seconds()},
		"coordination.k8s.io/v1/leases":                 {objects: c.Nodes, bytes: leaseBytes, changes: c.Nodes * heartbeats, etcd: "leases"},
		"v1/events":                                     {objects: podEvents * churn * eventRetention, bytes: eventBytes, changes: podEvents * churn, etcd: "events"},
		"v1/services":                                   {objects: services, bytes: 1500},
		"v1/endpoints":                                  {objects: services, bytes: slice, changes: sliceWrites * churn},
		"discovery.k8s.io/v1/endpointslices":            {objects: endpointSlices, bytes: slice, changes: sliceWrites * churn},
		"v1/namespaces":                                 {objects: c.namespaces(), bytes: 600},
		"v1/configmaps":                                 {objects: pods / 10, bytes: 2000},
		"v1/secrets":                                    {objects: pods / 10, bytes: 2000},
		"v1/serviceaccounts":                            {objects: pods / 20, bytes: 500},
		"apps/v1/replicasets":                           {objects: pods / 5, bytes: 3000, changes: churn},
		"apps/v1/deployments":                           {objects: pods / 10, bytes: 3000, changes: churn},
		"apps/v1/statefulsets":                          {objects: pods / 100, bytes: 3000},
		"apps/v1/daemonsets":                            {objects: 10, bytes: 4000},
		"batch/v1/jobs":                                 {objects: pods / 100, bytes: 3000},
		"storage.k8s.io/v1/csinodes":                    {objects: c.Nodes, bytes: 1000},
		"storage.k8s.io/v1/csidrivers":                  {objects: 3, bytes: 800},
		"node.k8s.io/v1/runtimeclasses":                 {objects: 3, bytes: 500},
		"networking.k8s.io/v1/servicecidrs":             {objects: 1, bytes: 500},
		"networking.k8s.io/v1/networkpolicies":          {objects: c.namespaces(), bytes: 1000},
		"cilium.io/v2/ciliumnodes":                      c.optional(resourceLoad{objects: c.Nodes, bytes: 1500}),
		"cilium.io/v2/ciliumendpoints":                  c.optional(resourceLoad{objects: pods, bytes: 1200, changes: 3 * churn}),
		"cilium.io/v2/ciliumidentities":                 c.optional(resourceLoad{objects: pods / 20, bytes: 800}),
		"cilium.io/v2/ciliumnetworkpolicies":            c.optional(resourceLoad{objects: c.namespaces(), bytes: 1000}),
		"cilium.io/v2/ciliumclusterwidenetworkpolicies": c.optional(resourceLoad{objects: 10, bytes: 1000}),
	}
}

// resourceLoads returns the loads of all resources in the order of their names, so that sums
// are the same in each run.
func (c *Cluster) resourceLoads() []resourceLoad {
	resources := c.resources()
	var all []resourceLoad
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		all = append(all, resources[name])
	}
	return all
}

// optional is the load of a resource that is there only if the servers serve what is optional.
func (c *Cluster) optional(r resourceLoad) resourceLoad {
	if !c.Optional {
		return resourceLoad{}
	}
	return r
}

// unknownResource is the load of a resource that only a user's profile names.
func (c *Cluster) unknownResource() resourceLoad {
	return resourceLoad{objects: c.pods() / 10, bytes: 2000, changes: c.podsPerSecond() / 10}
}
