package model

import (
	"fmt"

	"github.com/millrace/millrace/internal/tool/clusterprofile"
)

// clusterCounts has the numbers and sizes of a real cluster's objects, as "millrace-tools analyze
// profile" has counted them. A nil *clusterCounts has no resources.
type clusterCounts struct {
	profile *clusterprofile.Profile
	nodes   float64 // of the real cluster
}

// eventsAlias is a second name of the resource events, with the same objects.
const eventsAlias = "events.events.k8s.io"

// minPerNode is the number of objects per node from which a resource grows with the nodes. Other
// resources, such as drivers and classes, keep their number.
const minPerNode = 0.1

// readCounts reads the file Counts. It replaces the values of flags that the file has.
func (c *Cluster) readCounts() error {
	c.counts = nil
	if c.Counts == "" {
		return nil
	}
	p, err := clusterprofile.Read(c.Counts)
	if err != nil {
		return fmt.Errorf("--counts=%s: %w", c.Counts, err)
	}
	nodes, pods := p.Find("nodes"), p.Find("pods")
	if nodes == nil || pods == nil || nodes.Objects < 1 {
		return fmt.Errorf("--counts=%s: it has no nodes or no pods: make it as a user who may list them", c.Counts)
	}
	for i := range p.Resources {
		p.Resources[i].SetDefaults()
	}
	c.counts = &clusterCounts{p, nodes.Objects}
	c.PodsPerNode, c.PodBytes, c.NodeBytes = pods.Objects/nodes.Objects, pods.Bytes, nodes.Bytes
	if definitions := p.Find("customresourcedefinitions.apiextensions.k8s.io"); definitions != nil {
		c.Definitions = definitions.Objects
	}
	return nil
}

// scaledObjects returns the number of a resource's objects in a cluster with a number of nodes.
func (c *clusterCounts) scaledObjects(r *clusterprofile.Resource, nodes float64) float64 {
	if r.Objects < minPerNode*c.nodes {
		return r.Objects
	}
	return r.Objects * nodes / c.nodes
}

// has reports whether a resource was counted.
func (c *clusterCounts) has(resource string) bool { return c != nil && c.profile.Find(resource) != nil }

// objectCount returns the number of a resource's objects, or usual if they were not counted.
func (c *clusterCounts) objectCount(resource string, nodes, usual float64) float64 {
	if c != nil {
		if r := c.profile.Find(resource); r != nil {
			return c.scaledObjects(r, nodes)
		}
	}
	return usual
}

// apply sets the numbers and sizes that were counted. Changes were not counted: resources that no
// flag describes do not change.
func (c *clusterCounts) apply(resources map[string]resourceLoad, nodes float64) {
	if c == nil {
		return
	}
	for i := range c.profile.Resources {
		r := &c.profile.Resources[i]
		if r.Resource == eventsAlias {
			continue
		}
		load := resources[r.Resource]
		load.objects, load.bytes = c.scaledObjects(r, nodes), r.Bytes
		resources[r.Resource] = load
	}
}
