// Package servers is the command "bench servers". It measures large LISTs at one server, at several
// servers over one etcd, and at replicas of one server.
//
//	clients, each with a connection ──► servers or replicas, round-robin ──► etcd
//
// Clients choose their servers round-robin. A load balancer would do the same, but share the machine with
// the servers. With --proxy clients do read through one, which is kubectl's proxy.
package servers
