// Package server wires everything into `millrace serve`. It alone constructs
// components, divides the machine's memory among them (MemoryShares), and decides
// in which order they start and stop. A caller makes Options, adds their flags to
// a command, and calls New and Run once.
//
// The package is not for logic: what a component does is in the component's own
// package. What stays here concerns the process as a whole, such as its memory,
// its flags and what it prints for people.
//
// Run starts from top to bottom and stops from bottom to top:
//
//	data directory     lock, certificates, kubeconfigs
//	embedded etcd      unless --etcd-servers names others
//	feeds, caches      one pair per etcd cluster, loaded before requests
//	trimmer, probe     give memory back, measure watches
//	Kubernetes' server with our hooks: storage, read tier, custom resources
//
// So requests in flight and watches end first, then the feeds, then etcd, and the
// lock of the data directory is released last.
package server
