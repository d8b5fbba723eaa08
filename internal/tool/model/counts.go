package model

import (
	"fmt"

	"github.com/millrace/millrace/internal/tool/clusterprofile"
)

// clusterCounts are the numbers and sizes of objects of a real cluster, as "millrace-tools analyze
// profile" has counted them. Nil has none.
type clusterCounts struct {
	profile *clusterprofile.Profile
	nodes   float64 // that the cluster had
}

// otherEvents is a second name of the resource events: its objects are the same.
const otherEvents = "events.events.k8s.io"

// growing is the part of the number of nodes from which a resource is taken to grow with
// them. Others, such as drivers and classes, stay as many as they are.
const growing = 0.1

// readCounts reads a file, and sets what it knows better than flags.
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

// scale is how many objects of a resource a cluster of so many nodes has.
func (c *clusterCounts) scale(r *clusterprofile.Resource, nodes float64) float64 {
	if r.Objects < growing*c.nodes {
		return r.Objects
	}
	return r.Objects * nodes / c.nodes
}

func (c *clusterCounts) has(resource string) bool { return c != nil && c.profile.Find(resource) != nil }

// objects is the number of a resource, and usual where it was not counted.
func (c *clusterCounts) objects(resource string, nodes, usual float64) float64 {
	if c != nil {
		if r := c.profile.Find(resource); r != nil {
			return c.scale(r, nodes)
		}
	}
	return usual
}

// apply sets what was counted. How often objects change was not: resources that the flags do
// not know are taken not to change.
func (c *clusterCounts) apply(resources map[string]resourceLoad, nodes float64) {
	if c == nil {
		return
	}
	for i := range c.profile.Resources {
		r := &c.profile.Resources[i]
		if r.Resource == otherEvents {
			continue
		}
		load := resources[r.Resource]
		load.objects, load.bytes = c.scale(r, nodes), r.Bytes
		resources[r.Resource] = load
	}
}
