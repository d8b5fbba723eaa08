// Package storage is Kubernetes' storage.Interface over the byte cache.
//
//	              handlers, admission, controllers of Kubernetes
//	                       |                      |
//	                     reads                  writes
//	                       |                      |
//	package read ---->   Store  -- suggestions --> Kubernetes' etcd3 store
//	                       |                      |
//	                cache.Resource  <-- feed --  etcd
//
// Writes go to etcd through Kubernetes' own store. Reads and watches come from the
// cache. Package read asks a Store for the place of stored bytes, and answers most
// HTTP requests from them without decoding. Other requests come here through
// Kubernetes' handlers and get objects. Reads that the cache cannot answer, such as
// an exact old revision or an object that cannot be read, go to etcd. In a replica without
// etcd they fail, and the replica passes them on.
//
// One Store serves one storage of one resource: a built-in kind, or one served
// version of a custom one. The Stores of a kind share the cache's Resource, except that
// objects as another server sends them (Verbatim) have a Resource for each encoding.
//
// A caller gives Kubernetes the method Decorate of a Decorator in place of its own
// storage decorator. The package is not for HTTP, and does not follow etcd.
package storage
