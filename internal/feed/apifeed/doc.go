// Package apifeed follows one resource of an API server, as etcdfeed.Feed follows etcd: it
// gives a feed.Sink the objects at a revision, then each change in order, then progress.
//
// The bytes are those that the server sends: protobuf for built-in kinds, JSON for custom
// resources. An object in either form is also a stored form of it, so the cache takes it
// as if it came from etcd, under the key that etcd has. Resource versions are the
// server's and never made up.
//
// The caller makes a Feed for each resource and runs it until its context ends. Run also
// ends when the server has gone back in time, because nothing that was read before can be
// trusted then. The package decodes no objects: it reads names and versions out of bytes.
package apifeed
