// Package source is where the objects of the read tier come from: etcd clusters, or resources
// of an API server, each with a cache and the feed that fills it.
//
//	etcd cluster ──etcdfeed──► cache ┐
//	API server ──apifeed────► cache  ├── Backends.Of ──► storage of a resource
//	             (one for each       ┘
//	              resource)
//
// The caller fills a Backends before its first use, has it open clusters, and calls Run. What
// the caches hold is written to and read from Checkpoints, and compared with etcd by Scrub.
//
// The package knows no Kubernetes server and no flag.
package source
