package model

import "slices"

// writeLoad is what is written in a second.
type writeLoad struct {
	perSecond float64
	bytes     float64 // of the objects, as JSON
	// kubelets is how many of them come from nodes.
	kubelets float64
	// gets are the GETs of kubelets before they write a status.
	gets float64
	// etcds are by group: "" is the one that has what has none of its own.
	etcds map[string]*etcdLoad
}

// etcdLoad is what one etcd holds and takes.
type etcdLoad struct {
	perSecond    float64
	objectBytes  float64 // as they are stored
	changedBytes float64 // in a second, as they are stored
}

// database is the size of the database: the newest state, and the past that is not compacted.
func (e *etcdLoad) database(historySeconds float64) float64 {
	return e.objectBytes + e.changedBytes*historySeconds
}

// writes returns what nodes, controllers and the scheduler write.
func (c *Cluster) writes(protobufRatio float64) *writeLoad {
	w := &writeLoad{etcds: map[string]*etcdLoad{}}
	for _, r := range c.resourceLoads() {
		group := ""
		if slices.Contains(c.OwnEtcd, r.etcd) {
			group = r.etcd
		}
		e := w.etcds[group]
		if e == nil {
			e = &etcdLoad{}
			w.etcds[group] = e
		}
		w.perSecond += r.changes
		w.bytes += r.changes * r.bytes
		e.perSecond += r.changes
		e.objectBytes += r.objects * r.bytes * protobufRatio
		e.changedBytes += r.changes * r.bytes * protobufRatio
	}
	churn := c.podsPerSecond()
	w.kubelets = c.Nodes/c.LeaseInterval.Seconds() + c.Nodes/c.StatusInterval.Seconds() + churn*(kubeletWrites+kubeletEvents)
	w.gets = churn * kubeletGets
	return w
}
