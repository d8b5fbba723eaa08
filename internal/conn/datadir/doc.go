// Package datadir keeps the data directory of a server. It holds a lock, the certificates
// and kubeconfigs that no flag names, and the embedded etcd.
//
// The process that serves calls Open, which takes the lock, then EnsureCredentials.
// It reads the files named by Paths, and calls Close after everything that uses the
// directory has stopped. Commands that only read, such as a client or a scheduler,
// call Lookup, which takes no lock and writes nothing.
//
// EnsureCredentials judges every file before it writes the first one. It never
// overwrites a file that it did not make and cannot prove to be sound. The error
// names that file and says what to do about it.
//
// A replica calls Open and uses the lock and the place of checkpoints alone.
//
// The package is not for a control plane with certificates of its own. Such a
// server takes their names as flags and needs no data directory.
//
// Layout:
//
//	lock                            process id of the holder, locked by flock
//	pki/ca.crt, ca.key              authority for servers and clients, 10 years
//	pki/apiserver.crt, .key         serving certificate, 1 year
//	pki/sa.key, sa.pub              signs service-account tokens
//	pki/front-proxy-ca.crt, .key    authority for the aggregation layer
//	pki/front-proxy-client.crt, .key
//	admin.kubeconfig                group system:masters
//	controller-manager.kubeconfig
//	scheduler.kubeconfig
//	etcd/                           sockets and data of the embedded etcd
//	checkpoints/                    what a replica holds (package checkpoint)
package datadir
