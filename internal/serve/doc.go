// Package serve wires everything into `millrace serve`. It constructs the sources, and lets
// tiermount put the tier together over them. It divides the machine's memory (memory.Shares),
// and decides in which order all start and stop. A caller makes Options, adds their flags to a
// command, and calls New and Run once.
//
// Run starts from top to bottom and stops from bottom to top:
//
//	data directory     lock, certificates, kubeconfigs; unless the user brings credentials
//	embedded etcd      unless --etcd-servers names others
//	accounts           of GETs and LISTs
//	feeds, caches      one pair per etcd cluster, loaded before requests, and what package
//	                   program runs beside them
//	probe, Leases      measure watches, tell servers of each other
//	Kubernetes' server with our hooks: storage, read tier, custom resources
//
// So requests in flight and watches end first, then the feeds, then etcd, and the
// lock of the data directory is released last. With --read-path=kubernetes there are only the
// data directory, etcd, and the stock server.
package serve
