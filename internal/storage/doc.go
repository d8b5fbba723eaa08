// Package storage is Kubernetes' storage.Interface over the byte cache: writes
// go to etcd through Kubernetes' own store, reads and watches of Kubernetes'
// handlers come from the cache.
//
// One Store serves one storage of one resource: a built-in kind, or one served
// version of a custom one. Stores of a kind share the cache's Resource.
//
// HTTP requests that can be answered without decoding never come here (package
// read). What the cache cannot answer, an exact old revision or an object that
// cannot be read, goes to etcd.
package storage
