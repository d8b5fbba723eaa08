// Package etcdfeed connects to etcd. It has the embedded server of a stand-alone Millrace,
// and the feed, which reads the whole key prefix once and then follows it with a single
// watch.
//
// The caller opens a client or an embedded server, gives the client to a Feed and runs
// the feed until its context ends. The package knows keys, values and revisions. It does
// not decode values; the Sink does.
package etcdfeed
