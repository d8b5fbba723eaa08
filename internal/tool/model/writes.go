package model

import "slices"

// writeLoad has the writes per second.
type writeLoad struct {
	perSecond float64
	bytes     float64 // of the objects, as JSON
	// kubelets is the number of writes per second that kubelets send.
	kubelets float64
	// gets is the number of GETs per second that kubelets send before they write a status.
	gets float64
	// etcds are by group of resources. "" is the etcd of the resources without one of their own.
	etcds map[string]*etcdLoad
}

// etcdLoad has the writes and the objects of one etcd.
type etcdLoad struct {
	perSecond    float64 // writes
	objectBytes  float64 // of all objects, as they are stored
	changedBytes float64 // of the written objects per second, as they are stored
}

// databaseBytes returns the size of the database: of the newest objects, and of the older versions
// from historySeconds, which are not compacted yet.
func (e *etcdLoad) databaseBytes(historySeconds float64) float64 {
	return e.objectBytes + e.changedBytes*historySeconds
}

// writes returns the writes of nodes, controllers and the scheduler.
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
