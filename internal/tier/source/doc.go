// Package source is where the objects of the read tier come from, each cache with the feed that
// fills it.
//
//	etcd cluster ──etcdfeed──► cache ┐
//	                                 ├── Source.Of ──► storage of a resource
//	what a replica follows ──► cache ┘
//	by an API (package follow)
//
// The caller fills a Backends, and sets its Source before the first use (NewEtcd does). It
// calls Of for each resource, and Run. Checkpoints.Run writes what the caches hold to disk,
// and feeds read it at the next start. RunScrubbers compares what they hold with etcd.
//
// The package knows no Kubernetes server and no flag.
package source
