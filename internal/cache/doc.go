// Package cache keeps every stored object as bytes, in key order, with the
// events that lately changed it.
//
// A Cache is fed by one feed and holds one Resource for each resource prefix
// in etcd. Only the feed writes. A reader takes a Snapshot, which never changes
// and blocks nobody, and asks the Cache first to wait until it is fresh enough.
// Watchers read the resource's Log with a cursor of their own.
//
// The package decodes nothing by itself: what a resource's bytes mean is told
// at registration. It answers no requests; packages read and storage do.
package cache
