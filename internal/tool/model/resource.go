package model

import (
	"maps"
	"math"
	"slices"
)

// resourceLoad has the numbers of a resource of the cluster.
type resourceLoad struct {
	objects float64
	bytes   float64 // of one object, as JSON
	changes float64 // per second, each an event and a write
	etcd    string  // the group that may have an etcd of its own
}

// Numbers of writes in the life of a pod, and of its Event objects.
const (
	podWrites      = 7      // created, bound, three statuses, marked for deletion, deleted
	podEvents      = 5      // Event objects: scheduled, pulled, created, started, killing
	kubeletGets    = 3      // a GET before each status
	sliceWrites    = 2      // its EndpointSlice and its Endpoints: when it is ready, and when it ends
	kubeletWrites  = 4      // of podWrites: three statuses and the deletion
	kubeletEvents  = 4      // of podEvents
	eventRetention = 3600.0 // seconds for which an Event object is kept
)

// Sizes (in bytes, as JSON) and numbers of objects that no flag has. They are assumptions. The
// table of objects shows them.
const (
	podsPerNamespace = 300
	leaseBytes       = 700
	eventBytes       = 1000
	endpointBytes    = 300
	sliceBytes       = 500
	metadataBytes    = 500
	maxEndpoints     = 100 // of a slice
	// labelShare is the fraction of objects that a selector by a label's value selects.
	labelShare = 0.01
	// controllers is the number of clients of the control plane that watch each resource at the
	// servers.
	controllers = 2
)

// resources returns all resources of the cluster by name, as in endpointslices.discovery.k8s.io.
func (c *Cluster) resources() map[string]resourceLoad {
	resources := c.usualResources()
	c.counts.apply(resources, c.Nodes)
	return resources
}

// usualResources returns the resources of a cluster of which only the flags are known.
func (c *Cluster) usualResources() map[string]resourceLoad {
	pods, churn := c.pods(), c.podsPerSecond()
	services := math.Ceil(pods / c.PodsPerService)
	endpoints := min(maxEndpoints, c.PodsPerService)
	endpointSlices := math.Ceil(pods / endpoints)
	slice := sliceBytes + endpointBytes*endpoints
	heartbeats := 1 / c.LeaseInterval.Seconds()
	return map[string]resourceLoad{
		"pods":                       {objects: pods, bytes: c.PodBytes, changes: podWrites * churn},
		"nodes":                      {objects: c.Nodes, bytes: c.NodeBytes, changes: c.Nodes / c.StatusInterval.Seconds()},
		"leases.coordination.k8s.io": {objects: c.Nodes, bytes: leaseBytes, changes: c.Nodes * heartbeats, etcd: "leases"},
		"events": {objects: podEvents * churn * eventRetention, bytes: eventBytes,
			changes: podEvents * churn, etcd: "events"},
		"services":                                   {objects: services, bytes: 1500},
		"endpoints":                                  {objects: services, bytes: slice, changes: sliceWrites * churn},
		"endpointslices.discovery.k8s.io":            {objects: endpointSlices, bytes: slice, changes: sliceWrites * churn},
		"namespaces":                                 {objects: c.namespaces(), bytes: 600},
		"configmaps":                                 {objects: pods / 10, bytes: 2000},
		"secrets":                                    {objects: pods / 10, bytes: 2000},
		"serviceaccounts":                            {objects: pods / 20, bytes: 500},
		"replicasets.apps":                           {objects: pods / 5, bytes: 3000, changes: churn},
		"deployments.apps":                           {objects: pods / 10, bytes: 3000, changes: churn},
		"statefulsets.apps":                          {objects: pods / 100, bytes: 3000},
		"daemonsets.apps":                            {objects: 10, bytes: 4000},
		"jobs.batch":                                 {objects: pods / 100, bytes: 3000},
		"csinodes.storage.k8s.io":                    {objects: c.Nodes, bytes: 1000},
		"csidrivers.storage.k8s.io":                  {objects: 3, bytes: 800},
		"runtimeclasses.node.k8s.io":                 {objects: 3, bytes: 500},
		"servicecidrs.networking.k8s.io":             {objects: 1, bytes: 500},
		"networkpolicies.networking.k8s.io":          {objects: c.namespaces(), bytes: 1000},
		"ciliumnodes.cilium.io":                      c.optionalLoad(resourceLoad{objects: c.Nodes, bytes: 1500}),
		"ciliumendpoints.cilium.io":                  c.optionalLoad(resourceLoad{objects: pods, bytes: 1200, changes: 3 * churn}),
		"ciliumidentities.cilium.io":                 c.optionalLoad(resourceLoad{objects: pods / 20, bytes: 800}),
		"ciliumnetworkpolicies.cilium.io":            c.optionalLoad(resourceLoad{objects: c.namespaces(), bytes: 1000}),
		"ciliumclusterwidenetworkpolicies.cilium.io": c.optionalLoad(resourceLoad{objects: 10, bytes: 1000}),
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

// optionalLoad returns the load of a resource that profiles mark as optional: zero unless the
// servers serve such resources.
func (c *Cluster) optionalLoad(r resourceLoad) resourceLoad {
	if !c.Optional {
		return resourceLoad{}
	}
	return r
}

// unknownResource returns a guess of the load of a resource that only a user's profile names.
func (c *Cluster) unknownResource() resourceLoad {
	return resourceLoad{objects: c.pods() / 10, bytes: 2000, changes: c.podsPerSecond() / 10}
}
