// Package serve wires everything into `millrace serve`, and as yet `millrace replica`. It
// constructs the sources, has tiermount put the tier together over them, divides the
// machine's memory (memory.Shares), and decides in which order all start and stop. A caller makes Options, adds their flags to
// a command, and calls New and Run once.
//
// The package is not for a component's own work, which belongs to the component's
// package. It is for the process as a whole: its memory, its flags, its messages.
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
package serve
