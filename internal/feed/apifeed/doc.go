// Package apifeed follows one resource of an API server and keeps the contract of package feed.
// A feed.Sink gets the objects at a revision, then each change in order, then progress.
//
// The bytes are as the server sends them, in protobuf or JSON (Config.Protobuf). Items of
// lists get the kind that they lack. An object in either form is also a stored form of it. So
// the cache takes it as if it came from etcd, under the key that etcd has. Resource versions
// are the server's and never made up.
//
// The caller makes a Feed for each resource and runs it until its context ends. Run also ends
// when it is proven that the server has gone back in time (Config.WentBack): nothing that was
// read before can be trusted. A feed that is refused, silent or in doubt goes on: the caller
// decides by Healthy, BrokenSince and RefusalStatus what becomes of its readers. The package
// decodes no objects: it reads names and versions out of bytes.
package apifeed
