// Package source is where the objects of the read tier come from, each cache with the feed that
// fills it.
//
//	etcd cluster ──etcdfeed──► cache ┐
//	                                 ├── Source.Of ──► storage of a resource
//	what a replica follows ──► cache ┘
//	by an API (package follow)
//
// The caller fills a Backends, gives it a Source before its first use, has that open clusters,
// and calls Run. What the caches hold is written to and read from Checkpoints, and compared with
// etcd by Check.
//
// The package knows no Kubernetes server and no flag.
package source
