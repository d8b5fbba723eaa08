// Package datadir keeps the data directory of a server that runs alone: its
// lock, its certificates and kubeconfigs, and the place of its embedded etcd.
//
// The process that serves calls Open, which takes the directory for itself,
// then EnsureCredentials, then reads the files named by Paths, and calls Close
// after everything that uses the directory has stopped. Commands which only
// read (a client, a controller manager, a scheduler) call Lookup, which takes
// no lock and writes nothing.
//
// EnsureCredentials judges every file before it writes the first one. State
// which it did not make itself and cannot prove to be sound is never
// overwritten: it is reported, with the file's name and what to do about it.
//
// The package is not for a control plane which brings certificates of its own:
// such a server takes their names as flags and needs no data directory.
//
// Layout:
//
//	lock                            process id of the owner, held by flock
//	pki/ca.crt, ca.key              authority for servers and clients, 10 years
//	pki/apiserver.crt, .key         serving certificate, 1 year
//	pki/sa.key, sa.pub              signs service-account tokens
//	pki/front-proxy-ca.crt, .key    authority for the aggregation layer
//	pki/front-proxy-client.crt, .key
//	admin.kubeconfig                group system:masters
//	controller-manager.kubeconfig
//	scheduler.kubeconfig
//	etcd/                           sockets and data of the embedded etcd
package datadir
