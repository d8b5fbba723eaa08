// Package servers is the command "bench servers": it measures large LISTs at one server, at
// several servers over one etcd, and at replicas in front of one.
//
//	clients, each with a connection ──► servers or replicas in turn ──► etcd
//
// Clients spread themselves: a balancer would share the machine with what is measured, and
// all it can do is the same. With --proxy they do read through one, which is kubectl's proxy.
package servers
