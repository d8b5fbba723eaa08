// Package server wires everything into `millrace serve`: it alone constructs
// components and decides in which order they start and stop.
//
// Start: data directory, embedded etcd, Kubernetes' server with our hooks, feeds
// until they are loaded, listeners. Stop is the reverse: requests in flight and
// watches end first, then feeds, then etcd, then the lock of the data directory.
package server
