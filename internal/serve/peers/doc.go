// Package peers lets the servers over one etcd know each other. Each server writes a Lease
// with what the others need: readiness, the digests of its caches at a revision, and the
// number of its watches. It reads the Leases of the others at the same interval.
//
//	Directory ──writes──► its own Lease, in kube-system
//	    │ ◄────reads───── the Leases of others
//	    ├──► Observe: digests, for package scrub
//	    └──► Rebalancer: how many watches to send elsewhere
//
// Servers use Leases and send each other no requests. Every server already has credentials
// for the API and a way to etcd, but none for its peers. The price is one small write of
// each server in each interval, as for Kubernetes' own Leases of servers. And what a server
// knows of others that run is up to two intervals old.
//
// The package decides nothing about caches and closes no watch.
package peers
