// Package etcdfeed follows etcd: a Feed reads the whole key prefix once and then follows it
// with a single watch.
//
// The caller opens a client, gives it to a Feed and runs the feed until its context ends.
// The package knows keys, values and revisions. It does not decode values; the Sink does.
package etcdfeed
