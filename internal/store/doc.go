// Package store reaches etcd: the embedded server of a stand-alone Millrace,
// the one client that every resource shares, and the feed, which reads the
// whole key prefix once and then follows it with a single watch.
//
// The caller opens a client or an embedded server, hands the client to a Feed
// and runs the feed until its context ends. The package knows keys, values and
// revisions; what the values mean is the cache's business.
package store
